/* SPDX-License-Identifier: Apache-2.0 */
/* Every part of split work runs once, for several callers at a time, and after a fork as well. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/parallel.h"

enum { CALLERS = 4, PARTS = 3000, ROUNDS = 50 };

static void count(void *work, size_t part)
{
    unsigned char *counts = work;

    counts[part]++;
}

static void *call(void *unused)
{
    static const size_t sizes[] = {0, 1, 3, 4, 8, 63, PARTS};
    unsigned char *counts = malloc(PARTS);

    (void)unused;
    for (int round = 0; round < ROUNDS; round++) {
        const size_t parts = sizes[(size_t)round % (sizeof sizes / sizeof sizes[0])];
        memset(counts, 0, PARTS);
        sim_parallel(parts, count, counts);
        for (size_t i = 0; i < PARTS; i++) {
            if (counts[i] != (i < parts)) {
                printf("part %zu of %zu ran %d times\n", i, parts, counts[i]);
                exit(1);
            }
        }
    }
    free(counts);
    return NULL;
}

int main(void)
{
    pthread_t callers[CALLERS];

    for (int i = 0; i < CALLERS; i++) {
        pthread_create(&callers[i], NULL, call, NULL);
    }
    for (int i = 0; i < CALLERS; i++) {
        pthread_join(callers[i], NULL);
    }
    const pid_t child = fork();
    int status = -1;
    if (child == 0) {
        call(NULL);
        _exit(0);
    }
    waitpid(child, &status, 0);
    puts(status == 0 ? "once each" : "the child failed");
    return status != 0;
}
