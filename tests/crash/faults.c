/*
 * A disk that fails: loaded into a node with LD_PRELOAD, between it and the C library.
 *
 * It acts on files below HELIOGRAPH_FAULTS_DIR only, as the memory-mapped file HELIOGRAPH_FAULTS_CONTROL says, which
 * the harness writes and reads while the node runs (its layout is told again in fault_layer.py):
 *
 *   - a write is cut short, or fails with EIO or ENOSPC; a sync fails with EIO;
 *   - the process dies (SIGKILL) at the n-th write or sync, a write having reached the file in part or not at all;
 *   - for every log file it is kept up to which byte a power failure would leave it: as long as it was when its last
 *     successful sync began. After a failed sync that stays so for good, since a kernel may drop what it could not
 *     write and report success for the next sync. A file whose directory was not synced since is not there at all.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { WRITES, SYNCS, SHORT_WRITES, WRITE_ERRORS, FULL_ERRORS, SYNC_ERRORS, DEATHS, UNTRACKED, COUNTERS };
enum { POISONED = 1, UNLINKED = 2 };
#define SLOTS 4096

struct slot {
    uint64_t inode, directory;
    int64_t durable;
    uint64_t flags;
};

struct control {
    uint32_t short_write, write_error, full_error, sync_error; /* chances in a million */
    uint32_t die_after, reserved;                              /* calls until death; 0 is never */
    uint64_t random;
    uint64_t counts[COUNTERS];
    char page[4096 - 32 - 8 * COUNTERS];
    struct slot slots[SLOTS];
};

static struct control *control;
static const char *below;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static __thread int fails_next; /* the write after a short one: what a full disk does */

static ssize_t (*real_write)(int, const void *, size_t);
static ssize_t (*real_pwrite)(int, const void *, size_t, off_t);
static ssize_t (*real_writev)(int, const struct iovec *, int);
static int (*real_fsync)(int);
static int (*real_fdatasync)(int);
static int (*real_open)(const char *, int, ...);
static int (*real_openat)(int, const char *, int, ...);

__attribute__((constructor)) static void begin(void) {
    if (real_write != NULL) return;
    real_pwrite = dlsym(RTLD_NEXT, "pwrite64");
    real_writev = dlsym(RTLD_NEXT, "writev");
    real_fsync = dlsym(RTLD_NEXT, "fsync");
    real_fdatasync = dlsym(RTLD_NEXT, "fdatasync");
    real_open = dlsym(RTLD_NEXT, "open64");
    real_openat = dlsym(RTLD_NEXT, "openat64");
    real_write = dlsym(RTLD_NEXT, "write");
    const char *path = getenv("HELIOGRAPH_FAULTS_CONTROL");
    below = getenv("HELIOGRAPH_FAULTS_DIR");
    if (path == NULL || below == NULL) return;
    int fd = real_open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) return;
    void *place = mmap(NULL, sizeof(struct control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (place != MAP_FAILED) control = place;
}

static void count(int which) { __atomic_add_fetch(&control->counts[which], 1, __ATOMIC_RELAXED); }

/* splitmix64 on a state that all threads and all lives of the node share */
static uint64_t chance(void) {
    uint64_t z = __atomic_add_fetch(&control->random, 0x9E3779B97F4A7C15ull, __ATOMIC_RELAXED);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}

static int happens(uint32_t in_a_million) { return in_a_million != 0 && chance() % 1000000 < in_a_million; }

static int dies_now(void) {
    uint32_t left = __atomic_load_n(&control->die_after, __ATOMIC_RELAXED);
    while (left != 0)
        if (__atomic_compare_exchange_n(&control->die_after, &left, left - 1, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            return left == 1;
    return 0;
}

static void die(void) {
    count(DEATHS);
    kill(getpid(), SIGKILL);
    for (;;) pause();
}

/* Whether a descriptor is a file or directory of the database; `st` is filled in then. */
static int is_ours(int fd, struct stat *st) {
    char link[64], path[PATH_MAX];
    begin();
    if (control == NULL) return 0;
    int before = errno;
    int found = fstat(fd, st) == 0 && (S_ISREG(st->st_mode) || S_ISDIR(st->st_mode));
    if (found) {
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        ssize_t length = readlink(link, path, sizeof path - 1);
        size_t prefix = strlen(below);
        found = length > (ssize_t)prefix && memcmp(path, below, prefix) == 0 && path[prefix] == '/';
    }
    errno = before;
    return found;
}

static struct slot *slot_of(uint64_t inode, int create) {
    for (uint64_t n = 0; n < SLOTS; n++) {
        struct slot *slot = &control->slots[(inode + n) % SLOTS];
        if (slot->inode == inode) return slot;
        if (slot->inode == 0) {
            if (create) slot->inode = inode;
            return create ? slot : NULL;
        }
    }
    count(UNTRACKED);
    return NULL;
}

static void created(int fd, const char *path) {
    struct stat st, directory;
    char copy[PATH_MAX];
    size_t length = strlen(path);
    if (fd < 0 || length < 4 || length >= sizeof copy || strcmp(path + length - 4, ".log") != 0) return;
    if (!is_ours(fd, &st)) return;
    memcpy(copy, path, length + 1);
    char *end = strrchr(copy, '/');
    if (end == NULL) return;
    *end = 0;
    if (stat(copy, &directory) != 0) return;
    pthread_mutex_lock(&lock);
    struct slot *slot = slot_of(st.st_ino, 1);
    if (slot != NULL) *slot = (struct slot){st.st_ino, directory.st_ino, 0, UNLINKED};
    pthread_mutex_unlock(&lock);
}

static void synced(const struct stat *before, int succeeded) {
    pthread_mutex_lock(&lock);
    if (S_ISDIR(before->st_mode)) {
        for (int n = 0; succeeded && n < SLOTS; n++)
            if (control->slots[n].directory == before->st_ino) control->slots[n].flags &= ~(uint64_t)UNLINKED;
    } else {
        struct slot *slot = slot_of(before->st_ino, 0);
        if (slot != NULL && !succeeded) slot->flags |= POISONED;
        if (slot != NULL && succeeded && !(slot->flags & POISONED)) slot->durable = before->st_size;
    }
    pthread_mutex_unlock(&lock);
}

/* How many bytes of a write of `size` bytes are to be written; -1 with errno set for none. */
static ssize_t allowed(size_t size, int *dying) {
    count(WRITES);
    *dying = dies_now();
    if (*dying) return (ssize_t)(chance() % (size + 1));
    int failing = fails_next;
    fails_next = 0;
    if (failing || happens(control->full_error)) {
        count(FULL_ERRORS);
        errno = ENOSPC;
        return -1;
    }
    if (happens(control->write_error)) {
        count(WRITE_ERRORS);
        errno = EIO;
        return -1;
    }
    if (size > 1 && happens(control->short_write)) {
        count(SHORT_WRITES);
        fails_next = chance() & 1;
        return (ssize_t)(1 + chance() % (size - 1));
    }
    return (ssize_t)size;
}

ssize_t write(int fd, const void *data, size_t size) {
    struct stat st;
    int dying;
    if (!is_ours(fd, &st)) return real_write(fd, data, size);
    ssize_t part = allowed(size, &dying);
    ssize_t done = part < 0 ? -1 : real_write(fd, data, (size_t)part);
    if (dying) die();
    return done;
}

ssize_t pwrite64(int fd, const void *data, size_t size, off_t at) {
    struct stat st;
    int dying;
    if (!is_ours(fd, &st)) return real_pwrite(fd, data, size, at);
    ssize_t part = allowed(size, &dying);
    ssize_t done = part < 0 ? -1 : real_pwrite(fd, data, (size_t)part, at);
    if (dying) die();
    return done;
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t at) { return pwrite64(fd, data, size, at); }

ssize_t writev(int fd, const struct iovec *pieces, int number) {
    struct stat st;
    if (number > 0 && is_ours(fd, &st)) return write(fd, pieces[0].iov_base, pieces[0].iov_len);
    return real_writev(fd, pieces, number);
}

static int sync_with(int (*real)(int), int fd) {
    struct stat before;
    if (!is_ours(fd, &before)) return real(fd);
    count(SYNCS);
    int dying = dies_now();
    if (dying && (chance() & 1)) die();
    int outcome = 0;
    if (!dying && happens(control->sync_error)) {
        count(SYNC_ERRORS);
        errno = EIO;
        outcome = -1;
    } else {
        outcome = real(fd);
    }
    int why = errno;
    synced(&before, outcome == 0);
    if (dying) die();
    errno = why;
    return outcome;
}

int fsync(int fd) {
    begin();
    return sync_with(real_fsync, fd);
}

int fdatasync(int fd) {
    begin();
    return sync_with(real_fdatasync, fd);
}

static int opened(int directory, const char *path, int flags, mode_t mode) {
    begin();
    int fd = directory == AT_FDCWD ? real_open(path, flags, mode) : real_openat(directory, path, flags, mode);
    int why = errno;
    if (flags & O_TRUNC) created(fd, path);
    errno = why;
    return fd;
}

#define MODE(last)                                                                                                     \
    mode_t mode = 0;                                                                                                   \
    if (flags & (O_CREAT | __O_TMPFILE)) {                                                                             \
        va_list rest;                                                                                                  \
        va_start(rest, last);                                                                                          \
        mode = va_arg(rest, mode_t);                                                                                   \
        va_end(rest);                                                                                                  \
    }

int open(const char *path, int flags, ...) {
    MODE(flags)
    return opened(AT_FDCWD, path, flags, mode);
}

int open64(const char *path, int flags, ...) {
    MODE(flags)
    return opened(AT_FDCWD, path, flags, mode);
}

int openat(int directory, const char *path, int flags, ...) {
    MODE(flags)
    return opened(directory, path, flags, mode);
}

int openat64(int directory, const char *path, int flags, ...) {
    MODE(flags)
    return opened(directory, path, flags, mode);
}
