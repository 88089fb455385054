/* A clock that a test can set, for the processes that are started with this library preloaded.

   The file named by HERALD_CLOCK_FILE holds one number, in nanoseconds: what is added to the time of
   day. It is mapped, so a process follows each jump at once. Waits until a time of day are told the
   time that the kernel knows. Steady clocks, and the times of files, stay as they are.

   Built by deploy/chaos/clock.py where there is a C compiler. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#define SECOND_NS 1000000000LL
/* A steady clock counts from the start of the machine: no wait until it is longer than 30 years. */
#define TIME_OF_DAY_S 1000000000LL

static const volatile int64_t *offset_ns;

__attribute__((constructor)) static void map_file(void) {
    const char *path = getenv("HERALD_CLOCK_FILE");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0)
        return;
    void *mapped = mmap(NULL, sizeof *offset_ns, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (mapped != MAP_FAILED)
        offset_ns = mapped;
}

static struct timespec moved(struct timespec at, int64_t by_ns) {
    int64_t ns = at.tv_nsec + by_ns % SECOND_NS;
    int64_t carry = ns < 0 ? -1 : ns / SECOND_NS;
    at.tv_sec += by_ns / SECOND_NS + carry;
    at.tv_nsec = ns - carry * SECOND_NS;
    return at;
}

static struct timespec known_to_the_kernel(const struct timespec *at) {
    return at->tv_sec < TIME_OF_DAY_S || !offset_ns ? *at : moved(*at, -*offset_ns);
}

int clock_gettime(clockid_t clock, struct timespec *at) {
    int code = (int)syscall(SYS_clock_gettime, clock, at);
    if (code == 0 && offset_ns && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        *at = moved(*at, *offset_ns);
    return code;
}

int gettimeofday(struct timeval *at, void *zone) {
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at)
        *at = now.tv_sec;
    return now.tv_sec;
}

int timespec_get(struct timespec *at, int base) {
    return base == TIME_UTC && clock_gettime(CLOCK_REALTIME, at) == 0 ? base : 0;
}

/* Each wait is passed on to the function of the same name in the C library. */
#define PASS_ON(name, ...) \
    static __typeof__(name) *next; \
    struct timespec real = known_to_the_kernel(until); \
    if (!next) \
        next = (__typeof__(name) *)dlsym(RTLD_NEXT, #name); \
    return next(__VA_ARGS__, &real)

int pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *until) {
    static __typeof__(pthread_cond_timedwait) *next;
    struct timespec real = known_to_the_kernel(until);
    if (!next) /* on x86-64 the symbol without a version is an older function of another form */
        next = (__typeof__(next))dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
    if (!next)
        next = (__typeof__(next))dlsym(RTLD_NEXT, "pthread_cond_timedwait");
    return next(cond, mutex, &real);
}

int pthread_mutex_timedlock(pthread_mutex_t *mutex, const struct timespec *until) {
    PASS_ON(pthread_mutex_timedlock, mutex);
}

int sem_timedwait(sem_t *semaphore, const struct timespec *until) {
    PASS_ON(sem_timedwait, semaphore);
}

int sem_clockwait(sem_t *semaphore, clockid_t clock, const struct timespec *until) {
    PASS_ON(sem_clockwait, semaphore, clock);
}

int pthread_cond_clockwait(
    pthread_cond_t *cond, pthread_mutex_t *mutex, clockid_t clock, const struct timespec *until) {
    PASS_ON(pthread_cond_clockwait, cond, mutex, clock);
}

int cnd_timedwait(cnd_t *cond, mtx_t *mutex, const struct timespec *until) {
    PASS_ON(cnd_timedwait, cond, mutex);
}

int mtx_timedlock(mtx_t *mutex, const struct timespec *until) {
    PASS_ON(mtx_timedlock, mutex);
}
