/* Writes down what a process does to the files of one folder, in order, for tests/powerloss.py to play back.

   Loaded with LD_PRELOAD. The folder is $POWERLOSS_FOLDER, and $POWERLOSS_TRACE gets the records: a header, then one or
   two texts (paths, or what was written). Files are named by their inode, since a write goes to a file and not to a name.
   powerloss_fail(n, e, once) lets the n-th call from now, and unless `once` all later ones, fail with the error number e. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

struct header { uint64_t kind, inode, offset, first, second; };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const char *folder;
static int trace = -1;
static long fail_in = -1;
static int fail_with, fail_once;

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

__attribute__((constructor)) static void start(void) {
    folder = getenv("POWERLOSS_FOLDER");
    const char *path = getenv("POWERLOSS_TRACE");
    if (folder && path) trace = REAL(open)(path, O_WRONLY | O_APPEND | O_CLOEXEC);
}

void powerloss_fail(long calls, int error, int once) { fail_in = calls; fail_with = error; fail_once = once; }

static int inside(const char *path) {
    size_t length = trace >= 0 ? strlen(folder) : 0;
    return length && path && strncmp(path, folder, length) == 0 && (path[length] == 0 || path[length] == '/');
}

static int inside_fd(int fd, struct stat *about) { /* 0: no; else the mode of the file */
    char link[64], path[4096];
    if (trace < 0) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return inside(path) && fstat(fd, about) == 0;
}

static void record(char kind, uint64_t inode, uint64_t offset, const void *a, size_t first, const void *b, size_t second) {
    struct header header = {(uint64_t)kind, inode, offset, first, second};
    struct iovec parts[3] = {{&header, sizeof header}, {(void *)a, first}, {(void *)b, second}};
    if (writev(trace, parts, 3) != (ssize_t)(sizeof header + first + second)) abort();
}

static void record_path(char kind, uint64_t inode, const char *path) { record(kind, inode, 0, path, strlen(path), "", 0); }

static int failing(void) {
    if (fail_in < 0 || --fail_in >= 0) return 0;
    fail_in = fail_once ? -1 : 0;
    errno = fail_with;
    return 1;
}

#define GUARDED(type, test, body) \
    do { \
        if (!(test)) return call; \
        pthread_mutex_lock(&lock); \
        type result = failing() ? -1 : call; \
        int error = errno; \
        if (result >= 0) { body; } \
        pthread_mutex_unlock(&lock); \
        errno = error; \
        return result; \
    } while (0)

static int opened(int fd, int flags, int existed, const char *path) {
    struct stat about;
    if (fd < 0 || fstat(fd, &about)) return fd;
    if (!existed) record_path('c', about.st_ino, path);
    else if (flags & O_TRUNC) record('t', about.st_ino, 0, "", 0, "", 0);
    return fd;
}

#define OPEN(name) \
    int name(const char *path, int flags, ...) { \
        va_list arguments; \
        va_start(arguments, flags); \
        int mode = flags & O_CREAT ? va_arg(arguments, int) : 0, existed = access(path, F_OK) == 0; \
        va_end(arguments); \
        int (*real)(const char *, int, ...) = REAL(name); \
        if (!inside(path) || !(flags & (O_CREAT | O_TRUNC)) || (existed && !(flags & O_TRUNC))) return real(path, flags, mode); \
        pthread_mutex_lock(&lock); \
        int fd = failing() ? -1 : opened(real(path, flags, mode), flags, existed, path), error = errno; \
        pthread_mutex_unlock(&lock); \
        errno = error; \
        return fd; \
    }

OPEN(open)
OPEN(open64)

#define call REAL(write)(fd, data, count)
ssize_t write(int fd, const void *data, size_t count) {
    struct stat about;
    int ours = inside_fd(fd, &about);
    off_t at = !ours ? 0 : fcntl(fd, F_GETFL) & O_APPEND ? about.st_size : lseek(fd, 0, SEEK_CUR);
    GUARDED(ssize_t, ours, record('w', about.st_ino, at, data, result, "", 0));
}
#undef call

#define PWRITE(name, offset_type) \
    ssize_t name(int fd, const void *data, size_t count, offset_type offset) { \
        struct stat about; \
        GUARDED(ssize_t, inside_fd(fd, &about), record('w', about.st_ino, offset, data, result, "", 0)); \
    }
#define call REAL(pwrite)(fd, data, count, offset)
PWRITE(pwrite, off_t)
#undef call
#define call REAL(pwrite64)(fd, data, count, offset)
PWRITE(pwrite64, off64_t)
#undef call

#define call REAL(ftruncate)(fd, size)
int ftruncate(int fd, off_t size) {
    struct stat about;
    GUARDED(int, inside_fd(fd, &about), record('t', about.st_ino, size, "", 0, "", 0));
}
#undef call
#define call REAL(ftruncate64)(fd, size)
int ftruncate64(int fd, off64_t size) {
    struct stat about;
    GUARDED(int, inside_fd(fd, &about), record('t', about.st_ino, size, "", 0, "", 0));
}
#undef call

static void synced(int fd, const struct stat *about) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    path[length < 0 ? 0 : length] = 0;
    record_path(S_ISDIR(about->st_mode) ? 'S' : 's', about->st_ino, path);
}

#define call REAL(fsync)(fd)
int fsync(int fd) {
    struct stat about;
    GUARDED(int, inside_fd(fd, &about), synced(fd, &about));
}
#undef call
#define call REAL(fdatasync)(fd)
int fdatasync(int fd) {
    struct stat about;
    GUARDED(int, inside_fd(fd, &about), synced(fd, &about));
}
#undef call

#define call REAL(unlink)(path)
int unlink(const char *path) { GUARDED(int, inside(path), record_path('u', 0, path)); }
#undef call
#define call REAL(rmdir)(path)
int rmdir(const char *path) { GUARDED(int, inside(path), record_path('u', 0, path)); }
#undef call
#define call REAL(mkdir)(path, mode)
int mkdir(const char *path, mode_t mode) { GUARDED(int, inside(path), record_path('d', 0, path)); }
#undef call
#define call REAL(rename)(from, to)
int rename(const char *from, const char *to) {
    GUARDED(int, inside(from), record('r', 0, 0, from, strlen(from), to, strlen(to)));
}
#undef call
