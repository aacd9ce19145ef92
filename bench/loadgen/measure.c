/* Percentiles of the run, and CPU and memory of the gateway's process tree. */
#include "loadgen.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

struct stats stats;

enum { KEPT_SAMPLES = 4000000, MAX_TREE = 256 };

void samples_add(struct samples *s, uint64_t ns) {
    if (s->count < s->cap) s->values[s->count++] = ns < UINT32_MAX ? (uint32_t)ns : UINT32_MAX;
}

static int ascending(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

void samples_sort(struct samples *s) { qsort(s->values, s->count, sizeof *s->values, ascending); }

double samples_us(const struct samples *s, double quantile) {
    if (!s->count) return -1;
    return s->values[(size_t)(quantile * (double)(s->count - 1) + 0.5)] / 1e3;
}

static void samples_clear(struct samples *s) {
    if (!s->values) {
        s->cap = KEPT_SAMPLES;
        s->values = malloc(s->cap * sizeof *s->values);
        if (!s->values) die("malloc");
    }
    s->count = 0;
}

void stats_reset(void) {
    struct samples latency = stats.latency, chunk_latency = stats.chunk_latency;
    memset(&stats, 0, sizeof stats);
    samples_clear(&latency);
    samples_clear(&chunk_latency);
    stats.latency = latency;
    stats.chunk_latency = chunk_latency;
}

long stats_errors(void) { return stats.connect_failed + stats.cut + stats.bad_status + stats.bad_body; }

void json_string(char *out, size_t room, const char *text) {
    size_t n = 0;
    for (; *text && n + 2 < room; text++) {
        char c = isprint((unsigned char)*text) ? *text : ' ';
        if (c == '"' || c == '\\') out[n++] = '\\';
        out[n++] = c;
    }
    out[n] = 0;
}

void note_error(long *counter, const char *what, const char *detail, size_t n) {
    ++*counter;
    if (stats.first_error[0]) return;
    snprintf(stats.first_error, sizeof stats.first_error, "%s: %.*s", what, (int)(n < 120 ? n : 120), detail);
}

static pid_t tree[MAX_TREE];
static int tree_len;

static int parent_of(int pid) {
    char path[64], line[512];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *f = fopen(path, "r");
    if (!f) return -1;
    char *got = fgets(line, sizeof line, f);
    fclose(f);
    char *after_name = got ? strrchr(line, ')') : NULL; /* the name may hold spaces and brackets */
    int parent = -1;
    if (after_name && sscanf(after_name, ") %*c %d", &parent) != 1) return -1;
    return parent;
}

static bool in_tree(int pid) {
    for (int i = 0; i < tree_len; i++)
        if (tree[i] == pid) return true;
    return false;
}

void tree_find(int root) {
    tree_len = 0;
    if (!root) return;
    tree[tree_len++] = root;
    for (bool grew = true; grew;) { /* pids are not sorted by age, so repeat until nothing is new */
        grew = false;
        DIR *proc = opendir("/proc");
        if (!proc) die("/proc");
        for (struct dirent *e; (e = readdir(proc));) {
            int pid = atoi(e->d_name);
            if (pid <= 0 || in_tree(pid) || !in_tree(parent_of(pid)) || tree_len == MAX_TREE) continue;
            tree[tree_len++] = pid;
            grew = true;
        }
        closedir(proc);
    }
}

double tree_cpu_s(void) {
    double total = 0;
    for (int i = 0; i < tree_len; i++) {
        clockid_t clock;
        struct timespec t;
        if (clock_getcpuclockid(tree[i], &clock) || clock_gettime(clock, &t)) continue; /* gone */
        total += (double)t.tv_sec + (double)t.tv_nsec / 1e9;
    }
    return total;
}

long tree_rss_kb(void) {
    long total = 0;
    for (int i = 0; i < tree_len; i++) {
        char path[64], line[256];
        snprintf(path, sizeof path, "/proc/%d/status", tree[i]);
        FILE *f = fopen(path, "r");
        if (!f) continue;
        while (fgets(line, sizeof line, f))
            if (strncmp(line, "VmRSS:", 6) == 0) total += atol(line + 6);
        fclose(f);
    }
    return total;
}

double machine_cpu_s(void) {
    long user = 0, nice = 0, system = 0, irq = 0, softirq = 0, steal = 0;
    FILE *f = fopen("/proc/stat", "r");
    if (!f) die("/proc/stat");
    int got = fscanf(f, "cpu %ld %ld %ld %*d %*d %ld %ld %ld", &user, &nice, &system, &irq, &softirq, &steal);
    fclose(f);
    if (got != 6) die("/proc/stat has an unknown form");
    return (double)(user + nice + system + irq + softirq + steal) / (double)sysconf(_SC_CLK_TCK);
}

double own_cpu_s(void) {
    struct rusage r;
    getrusage(RUSAGE_SELF, &r);
    return (double)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) + (double)(r.ru_utime.tv_usec + r.ru_stime.tv_usec) / 1e6;
}
