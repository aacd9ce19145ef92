/* Options, event loop, scenarios and report.
 *
 *   loadgen --upstream-port 19001 [--path P] [--model M] [--header 'name: value']... [--body N] [--answer N] [--chunk N]
 *
 * The mock upstream serves until standard input ends. Each line of standard input is one measured run, as key=value
 * words, answered with one line of JSON:
 *
 *   mode=json|sse port=N conns=N dur=S warm=S [rate=N] [spin=1] [pid=N] [chunks=N] [window=N | interval_us=N]
 */
#include "loadgen.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { BATCH = 1024, IDLE_WAIT_NS = 50000000, PROBE_CHUNKS = 5 };

static const struct scenario at_rest = {.chunks = PROBE_CHUNKS}; /* between runs streams are short and sent at once */
struct scenario scenario = {.chunks = PROBE_CHUNKS};

static int epoll_fd;
static struct link *dead;

uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void die(const char *what) {
    fprintf(stderr, "loadgen: %s: %s\n", what, strerror(errno));
    exit(1);
}

void write_digits(char *at, uint64_t value, int width) {
    for (int i = width - 1; i >= 0; i--, value /= 10) at[i] = (char)('0' + value % 10);
}

uint64_t read_digits(const char *at, int width) {
    uint64_t value = 0;
    for (int i = 0; i < width; i++) value = value * 10 + (uint64_t)(at[i] - '0');
    return value;
}

static void control(int operation, struct link *l, uint32_t events) {
    struct epoll_event e = {.events = events, .data.ptr = l};
    if (epoll_ctl(epoll_fd, operation, l->fd, &e)) die("epoll_ctl");
}

void loop_add(struct link *l, uint32_t events) { control(EPOLL_CTL_ADD, l, events); }
void loop_want(struct link *l, uint32_t events) { control(EPOLL_CTL_MOD, l, events); }

void loop_close(struct link *l) {
    close(l->fd); /* also leaves the epoll set */
    l->fd = -1;
    l->next_dead = dead;
    dead = l;
}

static void bury_dead(void) {
    while (dead) {
        struct link *l = dead;
        dead = l->next_dead;
        free(l);
    }
}

/* Waits for events, at most until `deadline`, and handles one batch of them. True when standard input has a line. */
static bool turn(uint64_t deadline, bool spin) {
    struct epoll_event events[BATCH];
    uint64_t now = now_ns(), due = upstream_next_due(), asked = clients_next_due();
    uint64_t until = due < deadline ? due : deadline;
    if (asked < until) until = asked;
    struct timespec wait = {.tv_nsec = until <= now ? 0 : until - now < IDLE_WAIT_NS ? (long)(until - now) : IDLE_WAIT_NS};
    int n = spin ? epoll_wait(epoll_fd, events, BATCH, 0) : epoll_pwait2(epoll_fd, events, BATCH, &wait, NULL);
    if (n < 0 && errno != EINTR) die("epoll_wait");
    bool line_ready = false;
    for (int i = 0; i < n; i++) {
        struct link *l = events[i].data.ptr;
        if (l->fd < 0) continue; /* closed earlier in this batch */
        switch (l->kind) {
        case LINK_LISTENER: upstream_accept(l); break;
        case LINK_UPSTREAM: upstream_event(l, events[i].events); break;
        case LINK_CLIENT: client_event(l, events[i].events); break;
        case LINK_STDIN: line_ready = true; break;
        }
    }
    bury_dead();
    now = now_ns();
    upstream_tick(now);
    clients_tick(now);
    return line_ready;
}

static void report(double secs, double gateway_cpu, double own_cpu, double others_cpu) {
    char error[400];
    json_string(error, sizeof error, stats.first_error);
    samples_sort(&stats.latency);
    samples_sort(&stats.chunk_latency);
    printf("{\"mode\":\"%s\",\"conns\":%d,\"spin\":%s,\"secs\":%.3f,\"requests\":%ld,\"rps\":%.1f",
           scenario.sse ? "sse" : "json", scenario.conns, scenario.spin ? "true" : "false", secs, stats.requests,
           (double)stats.requests / secs);
    printf(",\"p50_us\":%.1f,\"p90_us\":%.1f,\"p99_us\":%.1f,\"p999_us\":%.1f,\"max_us\":%.1f",
           samples_us(&stats.latency, 0.5), samples_us(&stats.latency, 0.9), samples_us(&stats.latency, 0.99),
           samples_us(&stats.latency, 0.999), samples_us(&stats.latency, 1));
    printf(",\"chunks\":%ld,\"chunks_per_s\":%.1f,\"chunk_p50_us\":%.1f,\"chunk_p99_us\":%.1f", stats.chunks,
           (double)stats.chunks / secs, samples_us(&stats.chunk_latency, 0.5), samples_us(&stats.chunk_latency, 0.99));
    printf(",\"gateway_cpu_s\":%.4f,\"gateway_util\":%.3f,\"own_util\":%.3f,\"others_util\":%.3f,\"rss_kb\":%ld", gateway_cpu,
           gateway_cpu / secs, own_cpu / secs, others_cpu / secs, tree_rss_kb());
    printf(",\"us_per_request\":%.2f,\"us_per_chunk\":%.3f", stats.requests ? gateway_cpu * 1e6 / (double)stats.requests : -1,
           stats.chunks ? gateway_cpu * 1e6 / (double)stats.chunks : -1);
    printf(",\"open_streams\":%d,\"oldest_wait_s\":%.3f,\"upstream_requests\":%ld,\"upstream_conns\":%ld,\"stalls\":%ld",
           clients_streaming(), clients_oldest_wait_s(), upstream_requests, upstream_conns, upstream_stalls);
    printf(",\"errors\":%ld,\"connect_failed\":%ld,\"cut\":%ld,\"bad_status\":%ld,\"bad_body\":%ld,\"first_error\":\"%s\"}\n",
           stats_errors(), stats.connect_failed, stats.cut, stats.bad_status, stats.bad_body, error);
    fflush(stdout);
}

static void run(void) {
    stats_reset();
    upstream_requests = upstream_conns = upstream_stalls = 0;
    uint64_t begin = now_ns() + (uint64_t)(scenario.warm * 1e9), end = begin + (uint64_t)(scenario.dur * 1e9);
    clients_start();
    while (now_ns() < begin) turn(begin, scenario.spin);
    tree_find(scenario.pid);
    double gateway_cpu = tree_cpu_s(), own_cpu = own_cpu_s(), all_cpu = machine_cpu_s();
    uint64_t started = now_ns();
    stats.measuring = true;
    while (now_ns() < end) turn(end, scenario.spin);
    stats.measuring = false;
    double secs = (double)(now_ns() - started) / 1e9;
    gateway_cpu = tree_cpu_s() - gateway_cpu;
    own_cpu = own_cpu_s() - own_cpu;
    all_cpu = machine_cpu_s() - all_cpu;
    report(secs, gateway_cpu, own_cpu, all_cpu - gateway_cpu - own_cpu);
    clients_stop();
    bury_dead();
}

static void set(const char *key, const char *value) {
    if (!strcmp(key, "mode")) scenario.sse = !strcmp(value, "sse");
    else if (!strcmp(key, "port")) scenario.port = atoi(value);
    else if (!strcmp(key, "conns")) scenario.conns = atoi(value);
    else if (!strcmp(key, "dur")) scenario.dur = atof(value);
    else if (!strcmp(key, "warm")) scenario.warm = atof(value);
    else if (!strcmp(key, "rate")) scenario.rate = atof(value);
    else if (!strcmp(key, "spin")) scenario.spin = atoi(value);
    else if (!strcmp(key, "pid")) scenario.pid = atoi(value);
    else if (!strcmp(key, "chunks")) scenario.chunks = atoi(value);
    else if (!strcmp(key, "window")) scenario.window = atoi(value);
    else if (!strcmp(key, "interval_us")) scenario.interval = (uint64_t)atol(value) * 1000;
    else {
        fprintf(stderr, "loadgen: unknown word %s=%s\n", key, value);
        exit(2);
    }
}

static void run_line(char *line) {
    scenario = (struct scenario){.conns = 1, .chunks = 200, .warm = 1, .dur = 3};
    for (char *word = strtok(line, " \n"); word; word = strtok(NULL, " \n")) {
        char *equals = strchr(word, '=');
        if (equals) *equals = 0;
        set(word, equals ? equals + 1 : "1");
    }
    if (!scenario.port || scenario.conns < 1) {
        fprintf(stderr, "loadgen: a run needs port=N and conns=N\n");
        exit(2);
    }
    run();
    scenario = at_rest;
}

int main(int argc, char **argv) {
    int port = 0;
    size_t body = 2048, answer = 600, chunk = 250, headers_len = 0;
    const char *path = "/v1/chat/completions", *model = "bench";
    char headers[4096] = "";
    for (int i = 1; i + 1 < argc; i += 2) {
        const char *name = argv[i], *value = argv[i + 1];
        if (!strcmp(name, "--upstream-port")) port = atoi(value);
        else if (!strcmp(name, "--path")) path = value;
        else if (!strcmp(name, "--model")) model = value;
        else if (!strcmp(name, "--body")) body = (size_t)atol(value);
        else if (!strcmp(name, "--answer")) answer = (size_t)atol(value);
        else if (!strcmp(name, "--chunk")) chunk = (size_t)atol(value);
        else if (!strcmp(name, "--header") && headers_len + strlen(value) + 3 < sizeof headers)
            headers_len += (size_t)sprintf(headers + headers_len, "%s\r\n", value);
        else {
            fprintf(stderr, "loadgen: unknown option %s\n", name);
            return 2;
        }
    }
    if (!port) {
        fprintf(stderr, "usage: loadgen --upstream-port N [--path P] [--model M] [--header 'name: value']... "
                        "[--body N] [--answer N] [--chunk N] < scenarios\n");
        return 2;
    }
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    upstream_init(port, answer, chunk);
    client_init(path, model, headers, body);
    struct link input = {.kind = LINK_STDIN, .fd = STDIN_FILENO};
    loop_add(&input, EPOLLIN);
    setvbuf(stdin, NULL, _IONBF, 0); /* a line in stdio's buffer would not wake epoll */
    char line[1024];
    for (;;) {
        if (!turn(UINT64_MAX, false)) continue;
        if (!fgets(line, sizeof line, stdin)) return 0;
        control(EPOLL_CTL_DEL, &input, 0); /* the next line would wake every turn of the run */
        run_line(line);
        loop_add(&input, EPOLLIN);
    }
}
