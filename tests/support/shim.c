/* Stands between a process and its disk (LD_PRELOAD): counts the calls that change files below one directory, and at
 * the n-th of them ends the process or lets the call fail. Everything is told by the environment:
 *
 *   FAULT_DIR     the directory, absolute
 *   FAULT_AT      which call, from 1; 0 or unset: none
 *   FAULT_DO      kill: SIGKILL before the call; tear: SIGKILL in the middle of a write;
 *                 fail: the call fails; short: a write does half, the next call fails
 *   FAULT_ERRNO   the error of a failing call
 *   FAULT_STICKY  1: every later call fails as well
 *   FAULT_ONLY    sync: only syncs are counted, and fail
 *   FAULT_ROOM    a file with a number: bytes that there is room for; more do not go in
 *   FAULT_SIZE    bytes that the file system is said to have
 *   FAULT_CLOCK   a file with a number: seconds that the wall clock is ahead
 *   FAULT_SAID    a file that gets a line when the fault fires
 *   FAULT_TAPE    a file that gets a record of every call, with what it wrote; calls then happen one after the other
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define FILES 65536

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static const char *dir, *action, *said_path, *tape_path, *room_path, *clock_path;
static long used, disk_size;
static char cwd[PATH_MAX];
static size_t dir_length;
static long at, count;
static int fault_errno, sticky, only_syncs, failing, tape = -1;
static char *paths[FILES];
static uint32_t ids[FILES];
static uint32_t next_id;

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static long number_in(const char *path, long otherwise) {
    char text[32] = {0};
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return otherwise;
    long length = syscall(SYS_read, fd, text, sizeof text - 1);
    syscall(SYS_close, fd);
    return length > 0 ? atol(text) : otherwise;
}

static int measure(const char *path, const struct stat *about, int kind, struct FTW *place) {
    (void)path, (void)place;
    if (kind == FTW_F) used += about->st_size;
    return 0;
}

static long room(void) { return room_path ? number_in(room_path, LONG_MAX / 2) : LONG_MAX / 2; }

/* A file of this name goes away, or is emptied. */
static void give_back(const char *path) {
    struct stat about;
    if (!stat(path, &about) && S_ISREG(about.st_mode)) used -= about.st_size;
}

static void read_environment(void) {
    dir = getenv("FAULT_DIR");
    if (!getcwd(cwd, sizeof cwd)) cwd[0] = 0;
    dir_length = dir ? strlen(dir) : 0;
    action = getenv("FAULT_DO");
    said_path = getenv("FAULT_SAID");
    tape_path = getenv("FAULT_TAPE");
    room_path = getenv("FAULT_ROOM");
    clock_path = getenv("FAULT_CLOCK");
    disk_size = getenv("FAULT_SIZE") ? atol(getenv("FAULT_SIZE")) : 0;
    const char *text = getenv("FAULT_AT");
    at = text ? atol(text) : 0;
    text = getenv("FAULT_ERRNO");
    fault_errno = text ? atoi(text) : EIO;
    sticky = getenv("FAULT_STICKY") != NULL;
    text = getenv("FAULT_ONLY");
    only_syncs = text && !strcmp(text, "sync");
    if (tape_path)
        tape = (int)syscall(SYS_openat, AT_FDCWD, tape_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (dir && room_path) nftw(dir, measure, 16, FTW_PHYS);
}

static int is_ours(const char *path) {
    pthread_once(&once, read_environment);
    return dir && path && !strncmp(path, dir, dir_length) && (path[dir_length] == '/' || !path[dir_length]);
}

static const char *path_of(int fd) { return fd >= 0 && fd < FILES ? paths[fd] : NULL; }

/* The absolute path of a name in an open directory; only directories below ours are of interest. */
static const char *at_path(int fd, const char *name, char *into) {
    if (!name || name[0] == '/') return name;
    pthread_once(&once, read_environment);
    const char *above = fd == AT_FDCWD ? cwd : path_of(fd);
    if (!above) return NULL;
    if (snprintf(into, PATH_MAX, "%s/%s", above, name) >= PATH_MAX) return NULL;
    return into;
}

static void say(const char *operation, const char *path) {
    if (!said_path) return;
    int fd = (int)syscall(SYS_openat, AT_FDCWD, said_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    char line[PATH_MAX + 64];
    int length = snprintf(line, sizeof line, "%ld %s %s\n", count, operation, path);
    syscall(SYS_write, fd, line, (size_t)length);
    syscall(SYS_close, fd);
}

static void end(void) {
    syscall(SYS_kill, getpid(), SIGKILL);
    for (;;) pause();
}

enum { GO, FAIL, HALF };

/* What is to happen at this call. The lock is held. */
static int decide(const char *operation, const char *path, int is_write, int is_sync) {
    if (only_syncs && !is_sync) return GO;
    count++;
    if (failing) {
        errno = fault_errno;
        if (!sticky) failing = 0;
        return FAIL;
    }
    if (!at || count != at || !action) return GO;
    say(operation, path);
    if (!strcmp(action, "kill") || (!strcmp(action, "tear") && !is_write)) end();
    if (!strcmp(action, "tear")) return HALF;
    if (!strcmp(action, "short")) {
        failing = 1;
        if (is_write) return HALF;
        errno = fault_errno;
        return FAIL;
    }
    failing = sticky;
    errno = fault_errno;
    return FAIL;
}

/* One record: kind, a, b, lengths, and then path (or two) and data. */
static void record(char kind, uint64_t a, uint64_t b, const char *path, const char *other, const void *data, size_t size) {
    if (tape < 0) return;
    struct __attribute__((packed)) { char kind; uint64_t a, b; uint32_t path, other, data; } head = {
        kind, a, b, (uint32_t)strlen(path), other ? (uint32_t)strlen(other) : 0, (uint32_t)size};
    struct iovec parts[4] = {{&head, sizeof head}, {(void *)path, head.path}, {(void *)other, head.other},
                             {(void *)data, size}};
    syscall(SYS_writev, tape, parts, 4);
}

static int opened(int fd, const char *path, int flags) {
    if (fd < 0 || fd >= FILES) return fd;
    free(paths[fd]);
    paths[fd] = strdup(path);
    ids[fd] = ++next_id;
    struct stat about;
    int is_directory = !fstat(fd, &about) && S_ISDIR(about.st_mode);
    record(is_directory ? 'd' : 'o', ids[fd], (uint64_t)flags, path, NULL, NULL, 0);
    return fd;
}

static int open_as(int directory, const char *name, int flags, mode_t mode) {
    char buffer[PATH_MAX];
    const char *path = at_path(directory, name, buffer);
    int ours = is_ours(path);
    int writes = (flags & (O_CREAT | O_TRUNC)) != 0;
    if (!ours) return (int)syscall(SYS_openat, directory, name, flags, mode);
    pthread_mutex_lock(&lock);
    int fd = -1;
    if (!writes || decide("open", path, 0, 0) == GO) {
        if (flags & O_TRUNC) give_back(path);
        fd = (int)syscall(SYS_openat, directory, name, flags, mode);
        if (fd < 0) { int kept = errno; pthread_mutex_unlock(&lock); errno = kept; return fd; }
        opened(fd, path, flags);
    }
    int kept = errno;
    pthread_mutex_unlock(&lock);
    errno = kept;
    return fd;
}

#define MODE(flags) \
    mode_t mode = 0; \
    if ((flags) & (O_CREAT | O_TMPFILE)) { va_list list; va_start(list, flags); mode = va_arg(list, mode_t); va_end(list); }

int open(const char *name, int flags, ...) { MODE(flags) return open_as(AT_FDCWD, name, flags, mode); }
int open64(const char *name, int flags, ...) { MODE(flags) return open_as(AT_FDCWD, name, flags, mode); }
int openat(int fd, const char *name, int flags, ...) { MODE(flags) return open_as(fd, name, flags, mode); }
int openat64(int fd, const char *name, int flags, ...) { MODE(flags) return open_as(fd, name, flags, mode); }

int close(int fd) {
    if (path_of(fd)) {
        pthread_mutex_lock(&lock);
        free(paths[fd]);
        paths[fd] = NULL;
        pthread_mutex_unlock(&lock);
    }
    return (int)syscall(SYS_close, fd);
}

static ssize_t write_at(int fd, const void *data, size_t size, off64_t offset, int moves) {
    pthread_mutex_lock(&lock);
    const char *path = path_of(fd);
    int what = decide("write", path, 1, 0);
    size_t length = what == HALF ? size / 2 : size;
    ssize_t done = -1;
    if (what != FAIL) {
        struct stat64 about;
        fstat64(fd, &about);
        off64_t place = offset;
        if (moves) place = fcntl(fd, F_GETFL) & O_APPEND ? about.st_size : lseek64(fd, 0, SEEK_CUR);
        long left = room() - used, more = (long)(place + (off64_t)length - about.st_size);
        if (more > 0 && more > left) {
            if (left <= 0 || (size_t)(more - left) >= length) {
                pthread_mutex_unlock(&lock);
                errno = ENOSPC;
                return -1;
            }
            length -= (size_t)(more - left);
            more = left;
        }
        if (more > 0) used += more;
        done = moves ? syscall(SYS_write, fd, data, length) : syscall(SYS_pwrite64, fd, data, length, offset);
        if (done > 0) record('w', ids[fd], (uint64_t)place, path, NULL, data, (size_t)done);
        if (what == HALF && !strcmp(action, "tear")) end();
    }
    int kept = errno;
    pthread_mutex_unlock(&lock);
    errno = kept;
    return done;
}

ssize_t write(int fd, const void *data, size_t size) {
    return path_of(fd) ? write_at(fd, data, size, 0, 1) : syscall(SYS_write, fd, data, size);
}
ssize_t pwrite64(int fd, const void *data, size_t size, off64_t offset) {
    return path_of(fd) ? write_at(fd, data, size, offset, 0) : syscall(SYS_pwrite64, fd, data, size, offset);
}
ssize_t pwrite(int fd, const void *data, size_t size, off_t offset) { return pwrite64(fd, data, size, offset); }

ssize_t writev(int fd, const struct iovec *parts, int number) {
    if (!path_of(fd)) return syscall(SYS_writev, fd, parts, number);
    for (int part = 0; part < number; part++)
        if (parts[part].iov_len) return write_at(fd, parts[part].iov_base, parts[part].iov_len, 0, 1);
    return 0;
}

static int sync_file(int fd, long call) {
    if (!path_of(fd)) return (int)syscall(call, fd);
    pthread_mutex_lock(&lock);
    const char *path = paths[fd];
    struct stat about;
    int is_directory = !fstat(fd, &about) && S_ISDIR(about.st_mode);
    int done = -1;
    if (decide(is_directory ? "syncdir" : "sync", path, 0, 1) == GO) {
        done = (int)syscall(call, fd);
        if (!done) record(is_directory ? 'S' : 's', ids[fd], 0, path, NULL, NULL, 0);
    }
    int kept = errno;
    pthread_mutex_unlock(&lock);
    errno = kept;
    return done;
}

int fsync(int fd) { return sync_file(fd, SYS_fsync); }
int fdatasync(int fd) { return sync_file(fd, SYS_fdatasync); }

int sync_file_range(int fd, off64_t offset, off64_t size, unsigned flags) {
    if (!path_of(fd)) return (int)syscall(SYS_sync_file_range, fd, offset, size, flags);
    pthread_mutex_lock(&lock);
    /* It makes nothing durable: neither length nor the device's cache. So nothing is recorded. */
    int done = -1;
    if (decide("sync_file_range", paths[fd], 0, 1) == GO)
        done = (int)syscall(SYS_sync_file_range, fd, offset, size, flags);
    int kept = errno;
    pthread_mutex_unlock(&lock);
    errno = kept;
    return done;
}

static int truncate_file(int fd, off64_t size) {
    if (!path_of(fd)) return (int)syscall(SYS_ftruncate, fd, size);
    pthread_mutex_lock(&lock);
    int done = -1;
    struct stat before = {0};
    fstat(fd, &before);
    if (decide("truncate", paths[fd], 0, 0) == GO) {
        done = (int)syscall(SYS_ftruncate, fd, size);
        if (!done && room_path) used += size - before.st_size;
        if (!done) record('t', ids[fd], (uint64_t)size, paths[fd], NULL, NULL, 0);
    }
    int kept = errno;
    pthread_mutex_unlock(&lock);
    errno = kept;
    return done;
}

int ftruncate(int fd, off_t size) { return truncate_file(fd, size); }
int ftruncate64(int fd, off64_t size) { return truncate_file(fd, size); }

static int allocate(int fd, int mode, off64_t offset, off64_t size) {
    if (path_of(fd)) { errno = EOPNOTSUPP; return -1; }
    return (int)syscall(SYS_fallocate, fd, mode, offset, size);
}
int fallocate(int fd, int mode, off_t offset, off_t size) { return allocate(fd, mode, offset, size); }
int fallocate64(int fd, int mode, off64_t offset, off64_t size) { return allocate(fd, mode, offset, size); }

/* A change of names: done by `call`, recorded as `kind`. */
static int change(char kind, const char *operation, const char *path, const char *other, long call, long a, long b, long c, long d) {
    pthread_mutex_lock(&lock);
    int done = -1;
    if (decide(operation, path, 0, 0) == GO) {
        if (kind == 'u') give_back(path);
        done = (int)syscall(call, a, b, c, d);
        if (!done) record(kind, 0, 0, path, other, NULL, 0);
    }
    int kept = errno;
    pthread_mutex_unlock(&lock);
    errno = kept;
    return done;
}

int rename(const char *old, const char *new) {
    char buffers[2][PATH_MAX];
    const char *from = at_path(AT_FDCWD, old, buffers[0]), *to = at_path(AT_FDCWD, new, buffers[1]);
    if (!is_ours(from) && !is_ours(to)) return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
    pthread_mutex_lock(&lock);
    int done = -1;
    if (decide("rename", to, 0, 0) == GO) {
        give_back(to);
        done = (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
        if (!done) record('r', 0, 0, from, to, NULL, 0);
    }
    int kept = errno;
    pthread_mutex_unlock(&lock);
    errno = kept;
    return done;
}

int unlinkat(int fd, const char *name, int flags) {
    char buffer[PATH_MAX];
    const char *path = at_path(fd, name, buffer);
    if (!is_ours(path)) return (int)syscall(SYS_unlinkat, fd, name, flags);
    return change(flags & AT_REMOVEDIR ? 'R' : 'u', "unlink", path, NULL, SYS_unlinkat, fd, (long)name, flags, 0);
}
int unlink(const char *path) { return unlinkat(AT_FDCWD, path, 0); }
int rmdir(const char *path) { return unlinkat(AT_FDCWD, path, AT_REMOVEDIR); }

int mkdir(const char *name, mode_t mode) {
    char buffer[PATH_MAX];
    const char *path = at_path(AT_FDCWD, name, buffer);
    if (!is_ours(path)) return (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
    return change('m', "mkdir", path, NULL, SYS_mkdirat, AT_FDCWD, (long)path, mode, 0);
}

int statvfs(const char *name, struct statvfs *into) {
    char buffer[PATH_MAX];
    const char *path = at_path(AT_FDCWD, name, buffer);
    int done = REAL(statvfs)(name, into);
    if (!done && is_ours(path) && room_path) {
        long all = room(), left = all > used ? all - used : 0;
        into->f_blocks = (fsblkcnt_t)disk_size / into->f_frsize;
        into->f_bavail = into->f_bfree = (fsblkcnt_t)left / into->f_frsize;
    }
    return done;
}
int statvfs64(const char *name, struct statvfs64 *into) {
    char buffer[PATH_MAX];
    const char *path = at_path(AT_FDCWD, name, buffer);
    int done = REAL(statvfs64)(name, into);
    if (!done && is_ours(path) && room_path) {
        long all = room(), left = all > used ? all - used : 0;
        into->f_blocks = (fsblkcnt64_t)disk_size / into->f_frsize;
        into->f_bavail = into->f_bfree = (fsblkcnt64_t)left / into->f_frsize;
    }
    return done;
}

int clock_gettime(clockid_t clock, struct timespec *into) {
    static __typeof__(&clock_gettime) real;
    if (!real) real = REAL(clock_gettime);
    int done = real(clock, into);
    pthread_once(&once, read_environment);
    if (!done && clock_path && clock == CLOCK_REALTIME) into->tv_sec += number_in(clock_path, 0);
    return done;
}
