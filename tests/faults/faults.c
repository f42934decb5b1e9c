/* Faults below Python: fails, shortens or kills at the k-th operation that changes files below one folder, and logs
   every operation on them. Loaded with LD_PRELOAD into the installed command.

   FAULTS_BELOW  only files below this folder (real path)
   FAULTS_AT     1 is the first operation; 0 or unset: none
   FAULTS_KIND   eio, enospc (from then on), short (half of a write), kill (before it), half (kill after half of a write)
   FAULTS_LOG    a file that gets one line for each operation:
                 W n, S n (short), P n (pwrite), T (truncate), F (fsync), N (rename), C (create), M (mkdir),
                 R n (read), O n (written to stdout)
*/
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

static const char *below;
static size_t below_length;
static long at;
static const char *kind = "";
static int log_fd = -1;
static long count;
static pid_t owner;

__attribute__((constructor)) static void begin(void) {
    below = getenv("FAULTS_BELOW");
    below_length = below ? strlen(below) : 0;
    at = getenv("FAULTS_AT") ? atol(getenv("FAULTS_AT")) : 0;
    kind = getenv("FAULTS_KIND") ? getenv("FAULTS_KIND") : "";
    owner = getpid();
    const char *path = getenv("FAULTS_LOG");
    if (path) {
        int opened = syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        log_fd = fcntl(opened, F_DUPFD_CLOEXEC, 200);
        close(opened);
    }
}

static void note(char what, long size) {
    char line[64];
    int length = snprintf(line, sizeof line, "%c %ld\n", what, size);
    if (log_fd >= 0) syscall(SYS_write, log_fd, line, length);
}

static int is_below(const char *path) {
    return below && strncmp(path, below, below_length) == 0 && (path[below_length] == '/' || !path[below_length]);
}

static int fd_is_below(int fd) {
    if (!below || getpid() != owner) return 0;
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return is_below(path);
}

static int path_is_below(int folder, const char *path) {
    if (!below || getpid() != owner) return 0;
    if (path[0] == '/') return is_below(path);
    if (folder == AT_FDCWD) return 0;
    return fd_is_below(folder);
}

/* Whether this operation fails: 0 no, 1 with errno set, 2 only half of it is done, 3 half of it and then the end. */
static int fault(int is_write) {
    count++;
    int is_at = at > 0 && count == at;
    if (is_at && !strcmp(kind, "kill")) kill(getpid(), SIGKILL);
    if (is_at && !strcmp(kind, "half")) {
        if (!is_write) kill(getpid(), SIGKILL);
        return 3;
    }
    if (is_at && !strcmp(kind, "short") && is_write) return 2;
    if (is_at && !strcmp(kind, "eio")) { errno = EIO; return 1; }
    if (at > 0 && count >= at && !strcmp(kind, "enospc")) { errno = ENOSPC; return 1; }
    return 0;
}

#define REAL(type, name, ...) \
    static type (*real)(__VA_ARGS__); \
    if (!real) real = (type(*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

ssize_t write(int fd, const void *data, size_t size) {
    REAL(ssize_t, "write", int, const void *, size_t);
    if (fd == 1 && getpid() == owner) {
        ssize_t done = real(fd, data, size);
        if (done > 0) note('O', done);
        return done;
    }
    if (!fd_is_below(fd)) return real(fd, data, size);
    int how = fault(1);
    if (how == 1) return -1;
    ssize_t done = real(fd, data, how ? size / 2 : size);
    note(how ? 'S' : 'W', done);
    if (how == 3) kill(getpid(), SIGKILL);
    return done;
}

static ssize_t at_place(const char *name, int fd, const void *data, size_t size, off_t place) {
    ssize_t (*real)(int, const void *, size_t, off_t) = dlsym(RTLD_NEXT, name);
    if (!fd_is_below(fd)) return real(fd, data, size, place);
    int how = fault(1);
    if (how == 1) return -1;
    ssize_t done = real(fd, data, how ? size / 2 : size, place);
    note('P', done);
    if (how == 3) kill(getpid(), SIGKILL);
    return done;
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t place) { return at_place("pwrite", fd, data, size, place); }
ssize_t pwrite64(int fd, const void *data, size_t size, off_t place) {
    return at_place("pwrite64", fd, data, size, place);
}

static int cut(const char *name, int fd, off_t size) {
    int (*real)(int, off_t) = dlsym(RTLD_NEXT, name);
    if (fd_is_below(fd)) {
        if (fault(0) == 1) return -1;
        note('T', size);
    }
    return real(fd, size);
}

int ftruncate(int fd, off_t size) { return cut("ftruncate", fd, size); }
int ftruncate64(int fd, off_t size) { return cut("ftruncate64", fd, size); }

int fsync(int fd) {
    REAL(int, "fsync", int);
    if (fd_is_below(fd)) {
        if (fault(0) == 1) return -1;
        note('F', 0);
    }
    return real(fd);
}

int rename(const char *old, const char *new) {
    REAL(int, "rename", const char *, const char *);
    if (path_is_below(AT_FDCWD, new)) {
        if (fault(0) == 1) return -1;
        note('N', 0);
    }
    return real(old, new);
}

int renameat(int old_folder, const char *old, int new_folder, const char *new) {
    REAL(int, "renameat", int, const char *, int, const char *);
    if (path_is_below(new_folder, new)) {
        if (fault(0) == 1) return -1;
        note('N', 0);
    }
    return real(old_folder, old, new_folder, new);
}

int mkdir(const char *path, mode_t mode) {
    REAL(int, "mkdir", const char *, mode_t);
    if (path_is_below(AT_FDCWD, path)) {
        if (fault(0) == 1) return -1;
        note('M', 0);
    }
    return real(path, mode);
}

static int open_it(int folder, const char *path, int flags, mode_t mode) {
    if ((flags & O_CREAT) && path_is_below(folder, path)) {
        if (fault(0) == 1) return -1;
        note('C', 0);
    }
    return syscall(SYS_openat, folder, path, flags, mode);
}

#define MODE(last) \
    mode_t mode = 0; \
    if (flags & (O_CREAT | O_TMPFILE)) { va_list rest; va_start(rest, last); mode = va_arg(rest, mode_t); va_end(rest); }

int open(const char *path, int flags, ...) { MODE(flags) return open_it(AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE(flags) return open_it(AT_FDCWD, path, flags, mode); }
int openat(int folder, const char *path, int flags, ...) { MODE(flags) return open_it(folder, path, flags, mode); }
int openat64(int folder, const char *path, int flags, ...) { MODE(flags) return open_it(folder, path, flags, mode); }

ssize_t read(int fd, void *data, size_t size) {
    REAL(ssize_t, "read", int, void *, size_t);
    ssize_t done = real(fd, data, size);
    if (done > 0 && log_fd >= 0 && fd_is_below(fd)) note('R', done);
    return done;
}
