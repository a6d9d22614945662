/* SPDX-License-Identifier: Apache-2.0 */
/* Where reports go: the thread's recent messages, the file of ACLSIM_REPORT or else standard error, and a queue for the
   control interface. */
#include <ctype.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "aclsim/aclsim.h"
#include "core/checks.h"
#include "core/counters.h"
#include "core/message.h"
#include "core/process.h"

#define VARIABLE "ACLSIM_REPORT"
#define TEXT_BYTES 1024
#define QUEUED 1024 /* the oldest ones: what came first is the cause of what follows */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* for all that follows */
static uint64_t sequence;
static char *queue[QUEUED]; /* a ring */
static size_t first_queued;
static size_t count_queued;
static int file = -1;

static _Thread_local sim_check_place place;

sim_check_place sim_check_stand(sim_check_place next)
{
    const sim_check_place before = place;
    place = next;
    return before;
}

/* A line is one write, so that processes can share the file. */
static void write_line(const char *json)
{
    char *line;
    int length = asprintf(&line, "%s\n", json);
    if (length >= 0) {
        if (write(file, line, (size_t)length) < 0) {
            fprintf(stderr, "aclsim: " VARIABLE ": cannot write: %s\n", json);
        }
        free(line);
    }
}

/* Once, as the library is loaded: a file with this line alone says that nothing was found. */
void sim_check_open_report(void)
{
    const char *path = getenv(VARIABLE);
    if (path == NULL || *path == '\0') {
        return;
    }
    file = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    if (file < 0) {
        fprintf(stderr, "aclsim: " VARIABLE ": cannot open \"%s\"; reports come here\n", path);
        return;
    }
    char checks[80];
    char line[320];
    sim_check_list(checks, sizeof checks);
    snprintf(line, sizeof line, "{\"schema\":1,\"simulator\":\"%s\",\"pid\":%ld,\"checks\":%s}", aclsim_version(),
        (long)getpid(), checks);
    write_line(line);
}

static void put_text(FILE *out, const char *name, const char *text)
{
    fprintf(out, "\"%s\":\"", name);
    for (; *text != '\0'; ++text) {
        if (*text == '"' || *text == '\\') {
            fputc('\\', out);
        }
        fputc(iscntrl((unsigned char)*text) ? ' ' : *text, out);
    }
    fputs("\",", out);
}

static void put_number(FILE *out, const char *name, int32_t number)
{
    if (place.is_stream) {
        fprintf(out, "\"%s\":%d,", name, number);
    } else {
        fprintf(out, "\"%s\":null,", name);
    }
}

/* NULL when the host has no memory. */
static char *to_json(sim_check check, const char *kind, const char *function, const char *text, uint64_t number)
{
    char *json = NULL;
    size_t size;
    FILE *out = open_memstream(&json, &size);
    if (out == NULL) {
        return NULL;
    }
    fprintf(out, "{\"sequence\":%llu,", (unsigned long long)number);
    put_text(out, "check", sim_check_name(check));
    put_text(out, "kind", kind);
    put_text(out, "function", function);
    put_text(out, "text", text);
    put_number(out, "device", place.device);
    put_number(out, "stream", place.stream);
    fprintf(out, "\"thread\":%u}", place.thread != 0 ? place.thread : (uint32_t)gettid());
    return fclose(out) == 0 ? json : NULL;
}

/* With the lock. Takes the text. */
static void enqueue(char *json)
{
    if (count_queued < QUEUED) {
        queue[(first_queued + count_queued++) % QUEUED] = json;
    } else {
        free(json);
    }
}

void sim_report(sim_check check, const char *kind, const char *function, const char *format, ...)
{
    if (!sim_checking(check) || sim_process_forked()) {
        return;
    }
    char text[TEXT_BYTES];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    char title[32];
    snprintf(title, sizeof title, "Simulator_Check_%s", sim_check_name(check));
    sim_message(kind, title, "%s: %s.", function, text);
    pthread_mutex_lock(&lock);
    char *json = to_json(check, kind, function, text, ++sequence);
    if (file >= 0 && json != NULL) {
        write_line(json);
    } else {
        fprintf(stderr, "aclsim: %s: %s in %s: %s\n", sim_check_name(check), kind, function, text);
    }
    if (json != NULL) {
        enqueue(json);
    }
    pthread_mutex_unlock(&lock);
    sim_count(ACLSIM_REPORTS, 1);
}

SIM_EXPORT size_t aclsim_report_count(void)
{
    if (sim_process_forked()) {
        return 0;
    }
    pthread_mutex_lock(&lock);
    size_t count = count_queued;
    pthread_mutex_unlock(&lock);
    return count;
}

SIM_EXPORT size_t aclsim_next_report(char *buffer, size_t size)
{
    if (sim_process_forked()) {
        return 0;
    }
    size_t needed = 0;
    pthread_mutex_lock(&lock);
    if (count_queued > 0) {
        char *json = queue[first_queued];
        needed = strlen(json) + 1;
        if (buffer != NULL && needed <= size) {
            memcpy(buffer, json, needed);
            free(json);
            first_queued = (first_queued + 1) % QUEUED;
            --count_queued;
        }
    }
    pthread_mutex_unlock(&lock);
    return needed;
}
