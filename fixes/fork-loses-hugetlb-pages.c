// SPDX-License-Identifier: GPL-2.0-only
/*
 * fork() leaves out private HugeTLB pages (docs/findings.md#fork-loses-hugetlb-pages). Run it as root. Arguments: the
 * size of a HugeTLB page in KiB (64), the number of pages (16), and the number of children (100). Each child looks
 * whether it has the pages that its parent wrote. The status is 0 if all have, 1 if not, and 2 if there are no pages.
 */
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/*
 * Free slabs, of which fork() makes page tables. The index of their struct pages is not zero: a slab has the pointer to its
 * first free object in this place.
 */
static void free_slabs(void)
{
	static int fds[9000];
	int n = 0;

	while (n < 9000 && pipe(fds + n) == 0)
		n += 2;
	while (n)
		close(fds[--n]);
}

static int looks(const char *memory, size_t size, int pages)
{
	int i;

	for (i = 0; i < pages; i++)
		if (memory[i * size] != i + 1)
			return 1;
	return 0;
}

int main(int argc, char **argv)
{
	const size_t size = (argc > 1 ? atol(argv[1]) : 64) << 10;
	const int pages = argc > 2 ? atoi(argv[2]) : 16, forks = argc > 3 ? atoi(argv[3]) : 100;
	const struct rlimit many = { 10000, 10000 };
	int lost = 0, i, status;
	char name[100], *memory;
	cpu_set_t cpu;
	FILE *pool;

	CPU_ZERO(&cpu);
	CPU_SET(0, &cpu);
	sched_setaffinity(0, sizeof(cpu), &cpu);	/* The freed pages stay in the lists of this CPU. */
	setrlimit(RLIMIT_NOFILE, &many);
	sprintf(name, "/sys/kernel/mm/hugepages/hugepages-%zukB/nr_hugepages", size >> 10);
	pool = fopen(name, "w");
	if (pool) {
		fprintf(pool, "%d\n", 2 * pages);
		fclose(pool);
	}
	memory = mmap(NULL, pages * size, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | __builtin_ctzl(size) << MAP_HUGE_SHIFT, -1, 0);
	if (memory == MAP_FAILED) {
		perror("mmap of HugeTLB pages");
		return 2;
	}
	for (i = 0; i < pages; i++)
		memory[i * size] = i + 1;
	for (i = 0; i < forks; i++) {
		pid_t pid;

		free_slabs();
		pid = fork();
		if (!pid)
			_exit(looks(memory, size, pages));
		lost += pid < 0 || waitpid(pid, &status, 0) < 0 || status != 0;
	}
	printf("%d of %d children lack HugeTLB pages of %zu KiB of their parent\n", lost, forks, size >> 10);
	return lost != 0;
}
