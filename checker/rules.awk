# SPDX-License-Identifier: GPL-2.0-only
#
# Makes C of rules.toml: RULE(RULE_KIND, "rule", "kind", "says", "manual") for each
# kind (rules.h).

function value(line)
{
	sub(/^[^=]*= */, "", line)
	if (line !~ /^".*"$/ && line !~ /^'.*'$/)
		fail("no value on one line")
	line = substr(line, 2, length(line) - 2)
	gsub(/["\\]/, "\\\\&", line)
	return "\"" line "\""
}

function fail(why)
{
	print FILENAME ": line " NR ": " why > "/dev/stderr"
	failed = 1
	exit 1
}

/^\[[a-z]+\]$/ { next }
/^\[[a-z]+\.kinds\.[a-z-]+\]$/ {
	if (kind)
		fail("the kind above has no manual")
	split(substr($0, 2, length($0) - 2), part, ".")
	kind = toupper(part[1] "_" part[3])
	gsub(/-/, "_", kind)
	kind = kind ", \"" part[1] "\", \"" part[3] "\""
	says = ""
	next
}
/^says = / { says = value($0); next }
/^manual = / {
	if (!kind || !says)
		fail("no kind, or no says, above")
	print "RULE(" kind ", " says ", " value($0) ")"
	kind = ""
	next
}
/^counter = / || /^#/ || /^$/ { next }
{ fail("not a line of rules: " $0) }
END {
	if (!failed && kind)
		fail("the last kind has no manual")
}
