# SPDX-License-Identifier: GPL-2.0-only
"""`lull bench --here --across`: measure stock and Lull on an arm64 machine, with a reboot before each measurement.

``machine`` is all that is known of the machine and done to it, ``ready`` says what stands against a measurement before
anything is changed, ``facts`` describes the machine, ``session`` goes from reboot to reboot, ``bundle`` makes the file
that is sent. Nothing of this has been run on hardware.
"""
