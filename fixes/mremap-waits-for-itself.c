// SPDX-License-Identifier: GPL-2.0-only
/*
 * mremap() of a shared HugeTLB mapping waits for a lock that it holds (docs/findings.md#mremap-waits-for-itself). Run it
 * as root, for 4 KiB pages. A child moves 1 GiB, of which it has touched one 2 MiB page. The status is 0 if the move
 * ends, 1 if not after 10 seconds, and 2 if there are no pages. The child cannot be killed then.
 */
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define SIZE	(1UL << 30)	/* what one PUD entry maps: less is never shared */
#define FROM	((char *)(0x100UL << 30))
#define TO	((char *)(0x200UL << 30))

static int child(void)
{
	int fd = memfd_create("pages", MFD_HUGETLB);

	if (ftruncate(fd, SIZE) ||
	    mmap(FROM, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, fd, 0) != FROM) {
		perror("mmap of HugeTLB pages");
		return 2;
	}
	*FROM = 1;
	return mremap(FROM, SIZE, SIZE, MREMAP_MAYMOVE | MREMAP_FIXED, TO) != TO || *TO != 1 ? 2 : 0;
}

int main(void)
{
	FILE *pool = fopen("/proc/sys/vm/nr_hugepages", "w");
	int status, seconds;
	pid_t pid;

	if (pool) {
		fprintf(pool, "8\n");
		fclose(pool);
	}
	pid = fork();
	if (!pid)
		_exit(child());
	for (seconds = 0; seconds < 10; seconds++) {
		if (waitpid(pid, &status, WNOHANG) == pid) {
			printf("mremap() has ended\n");
			return WIFEXITED(status) ? WEXITSTATUS(status) : 2;
		}
		sleep(1);
	}
	printf("mremap() has not ended after 10 seconds\n");
	return 1;
}
