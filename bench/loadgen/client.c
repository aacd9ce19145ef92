/* Clients; every answer is checked. In a closed loop each sends the next request when it has the whole answer to the last.
 * With a rate, requests are due at even times, and wait for a free connection where there is none: their time runs from
 * when they were due, so that a gateway that falls behind is not asked less and made to look quick. */
#include "loadgen.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { TEXT_ROOM = 16384, MAX_REQUEST = 1 << 20 };

struct client {
    struct link link;
    struct reader response;
    bool connecting, waiting, broken, done, finished; /* done: [DONE] seen; finished: finish_reason seen */
    size_t sent;
    uint64_t rid, began;
    int index, next_seq;
    size_t text_len;
    char text[TEXT_ROOM]; /* a JSON body, or the SSE line under way */
};

static struct client **clients;
static int client_count;
static char *request;
static size_t request_len, request_rid_at, request_stream_at;
static uint64_t last_rid;
static struct client **idle; /* connected and without a request, where there is a rate */
static int idle_count;
static uint64_t first_due, due_count;

void client_init(const char *path, const char *model, const char *headers, size_t body_bytes) {
    char *body = malloc(body_bytes + 1024);
    request = malloc(body_bytes + MAX_REQUEST);
    if (!body || !request) die("malloc");
    size_t n = (size_t)sprintf(body, "{\"model\":\"%s\",\"stream\":", model);
    size_t stream_at = n;
    n += (size_t)sprintf(body + n, "false,\"max_tokens\":256,\"temperature\":0.7,\"messages\":[{\"role\":\"system\","
                                   "\"content\":\"You are a helpful assistant.\"},{\"role\":\"user\",\"content\":\"rid-");
    size_t rid_at = n;
    n += (size_t)sprintf(body + n, "0000000000 ");
    const char *tail = "\"}]}";
    while (n + strlen(tail) < body_bytes) body[n] = n % 7 ? (char)('a' + n % 26) : ' ', n++;
    n += (size_t)sprintf(body + n, "%s", tail);
    size_t head = (size_t)sprintf(request,
                                  "POST %s HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
                                  "accept: application/json\r\nuser-agent: hedgerow-loadgen\r\n%scontent-length: %zu\r\n\r\n",
                                  path, headers, n);
    memcpy(request + head, body, n);
    free(body);
    request_len = head + n;
    request_rid_at = head + rid_at;
    request_stream_at = head + stream_at;
}

static void connect_client(int index) {
    int one = 1;
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)scenario.port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct client *c = calloc(1, sizeof *c);
    if (!c) die("calloc");
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) die("socket");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    c->link = (struct link){.kind = LINK_CLIENT, .fd = fd};
    c->index = index;
    c->connecting = true;
    clients[index] = c;
    if (connect(fd, (struct sockaddr *)&address, sizeof address) && errno != EINPROGRESS) die("connect");
    loop_add(&c->link, EPOLLOUT);
}

void clients_start(void) {
    memcpy(request + request_stream_at, scenario.sse ? "true ," : "false,", 6);
    client_count = scenario.conns;
    clients = calloc((size_t)client_count, sizeof(struct client *));
    if (!clients) die("calloc");
    idle = calloc((size_t)client_count, sizeof(struct client *));
    if (!idle) die("calloc");
    first_due = now_ns();
    for (int i = 0; i < client_count; i++) connect_client(i);
}

void clients_stop(void) {
    for (int i = 0; i < client_count; i++) loop_close(&clients[i]->link);
    free(clients);
    free(idle);
    clients = idle = NULL;
    client_count = idle_count = 0;
    due_count = 0;
}

int clients_streaming(void) {
    int open = 0;
    for (int i = 0; i < client_count; i++) open += clients[i]->waiting && clients[i]->next_seq > 0;
    return open;
}

double clients_oldest_wait_s(void) {
    uint64_t now = now_ns(), oldest = 0;
    for (int i = 0; i < client_count; i++)
        if (clients[i]->waiting && now - clients[i]->began > oldest) oldest = now - clients[i]->began;
    return (double)oldest / 1e9;
}

static void reconnect(struct client *c) {
    int index = c->index;
    for (int i = 0; i < idle_count; i++)
        if (idle[i] == c) idle[i--] = idle[--idle_count];
    loop_close(&c->link);
    connect_client(index);
}

static void write_request(struct client *c) {
    bool resumed = c->sent > 0;
    write_digits(request + request_rid_at, c->rid, RID_DIGITS);
    ssize_t wrote = send(c->link.fd, request + c->sent, request_len - c->sent, MSG_NOSIGNAL);
    if (wrote > 0) c->sent += (size_t)wrote;
    if (c->sent < request_len) loop_want(&c->link, EPOLLIN | EPOLLOUT);
    else if (resumed) loop_want(&c->link, EPOLLIN);
}

static void begin_request(struct client *c, uint64_t began) {
    reader_reset(&c->response, true);
    c->rid = ++last_rid;
    c->waiting = true;
    c->broken = c->done = c->finished = false;
    c->sent = c->text_len = 0;
    c->next_seq = 0;
    c->began = began;
    write_request(c);
}

static uint64_t due_at(uint64_t number) { return first_due + (uint64_t)((double)number * 1e9 / scenario.rate); }

uint64_t clients_next_due(void) { return scenario.rate > 0 && idle_count ? due_at(due_count) : UINT64_MAX; }

void clients_tick(uint64_t now) {
    for (uint64_t due; (due = clients_next_due()) <= now; due_count++) begin_request(idle[--idle_count], due);
}

static void next_request(struct client *c) {
    if (scenario.rate > 0) idle[idle_count++] = c;
    else begin_request(c, now_ns());
}

/* One content chunk: it must be ours and the next in order. */
static void content_chunk(struct client *c, const char *marker) {
    unsigned slot = (unsigned)read_digits(marker + 1, SLOT_DIGITS);
    uint64_t rid = read_digits(marker + 2 + SLOT_DIGITS, RID_DIGITS);
    int seq = (int)read_digits(marker + 3 + SLOT_DIGITS + RID_DIGITS, SEQ_DIGITS);
    uint64_t written = read_digits(marker + 4 + SLOT_DIGITS + RID_DIGITS + SEQ_DIGITS, TIME_DIGITS);
    if (rid != c->rid || seq != c->next_seq) c->broken = true;
    c->next_seq = seq + 1;
    if (stats.measuring) {
        stats.chunks++;
        samples_add(&stats.chunk_latency, now_ns() - written);
    }
    upstream_grant(slot, rid);
}

static void sse_line(struct client *c, const char *line, size_t n) {
    if (n < 6 || memcmp(line, "data:", 5) != 0) return;
    const char *marker = memchr(line, '@', n);
    if (marker && (size_t)(line + n - marker) >= MARKER_LEN) content_chunk(c, marker);
    else if (memmem(line, n, "[DONE]", 6)) c->done = true;
    else if (memmem(line, n, "\"stop\"", 6)) c->finished = true;
}

static void keep_text(struct client *c, const char *data, size_t n) {
    if (c->text_len + n > sizeof c->text) {
        c->broken = true;
        return;
    }
    memcpy(c->text + c->text_len, data, n);
    c->text_len += n;
}

static void response_body(void *owner, const char *data, size_t n) {
    struct client *c = owner;
    if (!scenario.sse || c->response.status != 200) {
        keep_text(c, data, n);
        return;
    }
    for (const char *newline; n && (newline = memchr(data, '\n', n));) {
        size_t line = (size_t)(newline - data) + 1;
        if (c->text_len) {
            keep_text(c, data, line);
            sse_line(c, c->text, c->text_len);
            c->text_len = 0;
        } else {
            sse_line(c, data, line);
        }
        data += line;
        n -= line;
    }
    if (n) keep_text(c, data, n);
}

static bool whole(const struct client *c) {
    if (c->broken) return false;
    if (scenario.sse) return c->done && c->finished && c->next_seq == scenario.chunks;
    char end[1 + RID_DIGITS + 5] = "@";
    write_digits(end + 1, c->rid, RID_DIGITS);
    memcpy(end + 1 + RID_DIGITS, "~end", 4);
    return memmem(c->text, c->text_len, end, 1 + RID_DIGITS + 4) != NULL;
}

static void answered(struct client *c) {
    c->waiting = false;
    if (c->response.status != 200) note_error(&stats.bad_status, c->response.head, c->text, c->text_len);
    else if (!whole(c)) note_error(&stats.bad_body, "answer is not whole", c->text, c->text_len);
    if (!stats.measuring) return;
    stats.requests++;
    samples_add(&stats.latency, now_ns() - c->began);
}

static void connected(struct client *c) {
    int error = 0;
    socklen_t size = sizeof error;
    getsockopt(c->link.fd, SOL_SOCKET, SO_ERROR, &error, &size);
    if (error) {
        const char *why = strerror(error);
        note_error(&stats.connect_failed, "connect", why, strlen(why));
        if (stats.connect_failed > 1000) die("the gateway refuses connections");
        usleep(1000);
        reconnect(c);
        return;
    }
    c->connecting = false;
    loop_want(&c->link, EPOLLIN);
    next_request(c);
}

static void closed_by_peer(struct client *c) {
    if (c->waiting && c->response.state == UNTIL_CLOSE) answered(c);
    else if (c->waiting) note_error(&stats.cut, "connection closed in the middle of an answer", "", 0);
    reconnect(c);
}

void client_event(struct link *l, uint32_t events) {
    static char buffer[262144];
    struct client *c = (struct client *)l;
    if (c->connecting) {
        connected(c);
        return;
    }
    if (events & EPOLLOUT && c->sent < request_len) write_request(c);
    if (!(events & (EPOLLIN | EPOLLHUP | EPOLLERR))) return;
    ssize_t got = read(l->fd, buffer, sizeof buffer);
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) {
        closed_by_peer(c);
        return;
    }
    const char *p = buffer;
    switch (reader_feed(&c->response, &p, buffer + got, response_body, c)) {
    case NEED_MORE:
        return;
    case MESSAGE_BAD:
        note_error(&stats.bad_body, "not HTTP", p, (size_t)(buffer + got - p));
        reconnect(c);
        return;
    case MESSAGE_DONE:
        answered(c);
        if (c->response.close) reconnect(c);
        else next_request(c);
    }
}
