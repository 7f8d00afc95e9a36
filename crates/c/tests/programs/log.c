/*
 * A rank that waits long for another one warns: on standard error, or by the function of the program. Arguments: `own` for a
 * function. Run with HALOPORT_WARN_AFTER=0.05.
 */
#define _POSIX_C_SOURCE 200809L

#include <haloport.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static hp_comm *comms[2];
static int failures;

static void check(hp_status status) {
    if (status != HP_OK) {
        printf("status %d: %s\n", (int)status, hp_message());
        failures++;
    }
}

static void take(hp_level level, const char *text, void *context) {
    printf("%s %d: %s\n", (const char *)context, (int)level, text);
}

static void *second(void *unused) {
    const struct timespec late = {0, 300 * 1000 * 1000};
    (void)unused;
    nanosleep(&late, NULL);
    check(hp_comm_barrier(comms[1]));
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t thread;
    if (argc > 1 && strcmp(argv[1], "own") == 0) check(hp_set_log(take, "level"));
    check(hp_comm_threads(2, comms));
    if (pthread_create(&thread, NULL, second, NULL) != 0) return EXIT_FAILURE;
    check(hp_comm_barrier(comms[0]));
    pthread_join(thread, NULL);
    check(hp_set_log(NULL, NULL));
    for (int rank = 0; rank < 2; rank++) check(hp_comm_free(comms[rank]));
    return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
