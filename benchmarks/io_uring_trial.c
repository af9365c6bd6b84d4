/* What io_uring would save a broker: the system calls of 500 pairs at QoS 1 with window 1, without a broker around them.
 *
 * Build:  cc -O2 -o io_uring_trial benchmarks/io_uring_trial.c -luring     (liburing 2.2 or later, Linux 6.0 or later)
 * Use:    io_uring_trial [pairs] [messages of each pair] [rounds]
 *
 * A load process holds the clients of all pairs; a server process stands for the broker. For each message the server
 * reads a PUBLISH of 96 bytes from one socket, answers 4 bytes there, sends 96 bytes to another socket and reads 4 bytes
 * there: two reads and two writes. The ways to do it are measured in turn, on loopback TCP:
 *
 *   epoll        wait once, read what is ready, write at the end of the turn: what Heliograph does
 *   uring        multishot receives into provided buffers, the sends of a turn in one call
 *   uring-defer  the same, with the completions worked off in that call (IORING_SETUP_DEFER_TASKRUN)
 *
 * Prints the server's CPU time for each message, user and system, and the messages per second. No protocol, no Python:
 * what differs between two lines is all that another way of input and output can save.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PUBLISH_BYTES = 96, ACK_BYTES = 4, EVENTS_MAX = 1024, BUFFERS = 4096, BUFFER_BYTES = 256, ENTRIES = 8192 };

static int pairs = 500, per_pair = 400, rounds = 3;
static int *sockets_of; /* the server's: 2i is the publisher of pair i, 2i + 1 its subscriber */
static char publish[PUBLISH_BYTES], ack[ACK_BYTES];

static void die(const char *what) {
  fprintf(stderr, "io_uring_trial: %s: %s (errno %d)\n", what, strerror(errno), errno);
  exit(1);
}

static double seconds(struct timeval t) { return t.tv_sec + t.tv_usec * 1e-6; }

static void pin(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  sched_setaffinity(0, sizeof set, &set); /* where there is one core only, both share it */
}

static void load(int port) {
  struct epoll_event events[EVENTS_MAX];
  int loop = epoll_create1(0), count = 2 * pairs, *fd = calloc(count, sizeof *fd);
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  char buffer[4096];
  int one = 1;
  for (int i = 0; i < count; i++) {
    fd[i] = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd[i], (struct sockaddr *)&to, sizeof to)) die("connect");
    setsockopt(fd[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = i};
    epoll_ctl(loop, EPOLL_CTL_ADD, fd[i], &event);
  }
  int *left = calloc(pairs, sizeof *left), going = pairs;
  long unacked = (long)pairs * per_pair;
  for (int i = 0; i < pairs; i++) {
    left[i] = per_pair;
    if (write(fd[2 * i], publish, PUBLISH_BYTES) != PUBLISH_BYTES) die("write");
  }
  while (going || unacked > 0) {
    int n = epoll_wait(loop, events, EVENTS_MAX, -1);
    for (int k = 0; k < n; k++) {
      int i = events[k].data.u32;
      ssize_t got = read(fd[i], buffer, sizeof buffer);
      if (got <= 0) die("the server ended");
      if (i & 1) {
        for (; got >= PUBLISH_BYTES; got -= PUBLISH_BYTES, unacked--)
          if (write(fd[i], ack, ACK_BYTES) != ACK_BYTES) die("write");
      } else if (--left[i / 2] > 0) {
        if (write(fd[i], publish, PUBLISH_BYTES) != PUBLISH_BYTES) die("write");
      } else {
        going--;
      }
    }
  }
  for (;;) pause(); /* until it is killed: the server may not have read the last bytes */
}

/* --- the server's ways; each ends when all messages were acknowledged by their receivers */

static void serve_epoll(void) {
  struct epoll_event events[EVENTS_MAX];
  int loop = epoll_create1(0), acked[EVENTS_MAX];
  long left = (long)pairs * per_pair;
  char buffer[4096];
  for (int i = 0; i < 2 * pairs; i++) {
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.u32 = i};
    epoll_ctl(loop, EPOLL_CTL_ADD, sockets_of[i], &event);
  }
  while (left > 0) {
    int published = 0, n = epoll_wait(loop, events, EVENTS_MAX, -1);
    for (int k = 0; k < n; k++) {
      int i = events[k].data.u32;
      ssize_t got = read(sockets_of[i], buffer, sizeof buffer);
      if (got <= 0) die("read");
      if (i & 1) left -= got / ACK_BYTES;
      else acked[published++] = i;
    }
    for (int k = 0; k < published; k++) {
      if (write(sockets_of[acked[k]], ack, ACK_BYTES) != ACK_BYTES) die("write");
      if (write(sockets_of[acked[k] + 1], publish, PUBLISH_BYTES) != PUBLISH_BYTES) die("write");
    }
  }
  close(loop);
}

static struct io_uring_sqe *next_entry(struct io_uring *ring) {
  struct io_uring_sqe *entry = io_uring_get_sqe(ring);
  if (entry == NULL) {
    io_uring_submit(ring);
    entry = io_uring_get_sqe(ring);
  }
  return entry;
}

static void receive(struct io_uring *ring, int i) {
  struct io_uring_sqe *entry = next_entry(ring);
  io_uring_prep_recv_multishot(entry, sockets_of[i], NULL, 0, 0);
  entry->flags |= IOSQE_BUFFER_SELECT;
  io_uring_sqe_set_data64(entry, i);
}

static void send_to(struct io_uring *ring, int i, const char *data, int size) {
  struct io_uring_sqe *entry = next_entry(ring);
  io_uring_prep_send(entry, sockets_of[i], data, size, MSG_NOSIGNAL);
  entry->flags |= IOSQE_CQE_SKIP_SUCCESS;
  io_uring_sqe_set_data64(entry, 1u << 30);
}

static void serve_uring(unsigned flags) {
  struct io_uring ring;
  struct io_uring_params params = {.flags = IORING_SETUP_CQSIZE | flags, .cq_entries = 2 * ENTRIES};
  int failed = io_uring_queue_init_params(ENTRIES, &ring, &params);
  if (failed) {
    errno = -failed;
    die("io_uring_setup");
  }
  struct io_uring_buf_ring *provided;
  if (posix_memalign((void **)&provided, 4096, BUFFERS * sizeof(struct io_uring_buf))) die("memory");
  char *memory = malloc((size_t)BUFFERS * BUFFER_BYTES);
  struct io_uring_buf_reg registration = {.ring_addr = (unsigned long)provided, .ring_entries = BUFFERS, .bgid = 0};
  failed = io_uring_register_buf_ring(&ring, &registration, 0);
  if (failed) {
    errno = -failed;
    die("io_uring_register_buf_ring");
  }
  int mask = io_uring_buf_ring_mask(BUFFERS);
  io_uring_buf_ring_init(provided);
  for (int i = 0; i < BUFFERS; i++) io_uring_buf_ring_add(provided, memory + i * BUFFER_BYTES, BUFFER_BYTES, i, mask, i);
  io_uring_buf_ring_advance(provided, BUFFERS);
  for (int i = 0; i < 2 * pairs; i++) receive(&ring, i);
  long left = (long)pairs * per_pair;
  while (left > 0) {
    struct io_uring_cqe *done;
    unsigned head, seen = 0, returned = 0;
    io_uring_submit_and_wait(&ring, 1); /* all that the last turn sends, and the wait, in one call */
    io_uring_for_each_cqe(&ring, head, done) {
      seen++;
      int i = (int)done->user_data;
      if (done->res <= 0) {
        errno = -done->res;
        if (done->res != -ENOBUFS) die("receive or send");
      } else if (done->flags & IORING_CQE_F_BUFFER) {
        int number = done->flags >> IORING_CQE_BUFFER_SHIFT;
        io_uring_buf_ring_add(provided, memory + number * BUFFER_BYTES, BUFFER_BYTES, number, mask, returned++);
        if (i & 1) {
          left -= done->res / ACK_BYTES;
        } else {
          send_to(&ring, i, ack, ACK_BYTES);
          send_to(&ring, i + 1, publish, PUBLISH_BYTES);
        }
      }
      if (i < 2 * pairs && !(done->flags & IORING_CQE_F_MORE)) receive(&ring, i);
    }
    io_uring_buf_ring_advance(provided, returned);
    io_uring_cq_advance(&ring, seen);
  }
  io_uring_queue_exit(&ring);
  free(provided);
  free(memory);
}

static void run(const char *name, int way) {
  int listening = socket(AF_INET, SOCK_STREAM, 0), one = 1;
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof at;
  if (bind(listening, (struct sockaddr *)&at, size) || listen(listening, 4096)) die("listen");
  getsockname(listening, (struct sockaddr *)&at, &size);
  pid_t child = fork();
  if (child == 0) {
    pin(1);
    load(ntohs(at.sin_port));
  }
  for (int i = 0; i < 2 * pairs; i++) {
    sockets_of[i] = accept4(listening, NULL, NULL, SOCK_NONBLOCK);
    setsockopt(sockets_of[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  }
  struct rusage before, after;
  struct timespec began, ended;
  getrusage(RUSAGE_SELF, &before);
  clock_gettime(CLOCK_MONOTONIC, &began);
  if (way == 0) serve_epoll();
  else serve_uring(IORING_SETUP_SINGLE_ISSUER | (way == 2 ? IORING_SETUP_DEFER_TASKRUN : IORING_SETUP_COOP_TASKRUN));
  getrusage(RUSAGE_SELF, &after);
  clock_gettime(CLOCK_MONOTONIC, &ended);
  double each = 1e6 / ((double)pairs * per_pair);
  double user = (seconds(after.ru_utime) - seconds(before.ru_utime)) * each;
  double system = (seconds(after.ru_stime) - seconds(before.ru_stime)) * each;
  double took = ended.tv_sec - began.tv_sec + (ended.tv_nsec - began.tv_nsec) * 1e-9;
  printf("%-12s %6.2f us of CPU for each message (user %.2f, system %.2f), %.0f/s\n", name, user + system, user, system,
         1e6 / each / took);
  fflush(stdout);
  for (int i = 0; i < 2 * pairs; i++) close(sockets_of[i]);
  close(listening);
  kill(child, SIGKILL);
  waitpid(child, NULL, 0);
}

int main(int argc, char **argv) {
  static const char *const names[] = {"epoll", "uring", "uring-defer"};
  if (argc > 1) pairs = atoi(argv[1]);
  if (argc > 2) per_pair = atoi(argv[2]);
  if (argc > 3) rounds = atoi(argv[3]);
  struct rlimit files = {.rlim_cur = 4 * pairs + 100, .rlim_max = 4 * pairs + 100};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  signal(SIGPIPE, SIG_IGN);
  sockets_of = calloc(2 * pairs, sizeof *sockets_of);
  memset(publish, 'p', sizeof publish);
  pin(0);
  for (int round = 0; round < rounds; round++)
    for (int way = 0; way < 3; way++) run(names[way], way);
  return 0;
}
