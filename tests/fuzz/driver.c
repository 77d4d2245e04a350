/*
 * driver.c - runs a fuzzer without libFuzzer: seeded random mutations of its seeds.
 *
 *   fuzz_x [-runs=N] [-seed=S] [-max_len=BYTES] [FILE or FOLDER…]
 *
 * A fuzzer is a file with LLVMFuzzerTestOneInput and pb_fuzz_seed. Each input
 * lies in memory of exactly its size, so that a sanitizer sees every step over
 * its end. The same seed gives the same inputs; a crash leaves its input in
 * the file crash-input, to be given back as an argument with -runs=0.
 */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SEEDS_MAX 64
#define INPUT_MAX ((size_t)256 * 1024)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
/* Fills buf with seed `index`; returns its size, 0 when there is none. */
size_t pb_fuzz_seed(int index, uint8_t *buf, size_t cap);

struct input {
    uint8_t *data;
    size_t size;
};

struct fuzzer {
    struct input seeds[SEEDS_MAX];
    size_t nseeds;
    uint64_t random;
    size_t max_len;
};

/* The input being run, for the crash handler, which gets no argument. */
static volatile struct input current;

static uint64_t next(struct fuzzer *f)
{
    f->random ^= f->random << 13;
    f->random ^= f->random >> 7;
    f->random ^= f->random << 17;
    return f->random;
}

static size_t below(struct fuzzer *f, size_t n)
{
    return n ? (size_t)(next(f) % n) : 0;
}

static void add_seed(struct fuzzer *f, const uint8_t *data, size_t size)
{
    if (f->nseeds == SEEDS_MAX || size == 0)
        return;
    f->seeds[f->nseeds].data = malloc(size);
    f->seeds[f->nseeds].size = size;
    memcpy(f->seeds[f->nseeds++].data, data, size);
}

static void add_file(struct fuzzer *f, const char *path, uint8_t *buf)
{
    FILE *file = fopen(path, "rb");

    if (!file)
        return;
    add_seed(f, buf, fread(buf, 1, INPUT_MAX, file));
    fclose(file);
}

static void add_path(struct fuzzer *f, const char *path, uint8_t *buf)
{
    DIR *dir = opendir(path);
    struct dirent *e;
    char name[4096];

    if (!dir) {
        add_file(f, path, buf);
        return;
    }
    while ((e = readdir(dir))) {
        snprintf(name, sizeof name, "%s/%s", path, e->d_name);
        if (e->d_name[0] != '.')
            add_file(f, name, buf);
    }
    closedir(dir);
}

/* Writes a number of 1 to 8 bytes that readers tend to stumble over. */
static void put_number(struct fuzzer *f, uint8_t *at, size_t room)
{
    static const uint64_t numbers[] = {0,
                                       1,
                                       0x7f,
                                       0x80,
                                       0xff,
                                       0x7fff,
                                       0xffff,
                                       0x7fffffff,
                                       0x80000000,
                                       0xffffffff,
                                       0x7fffffffffffffff,
                                       0x8000000000000000,
                                       0xffffffffffffffff};
    uint64_t v = numbers[below(f, sizeof numbers / sizeof numbers[0])] + below(f, 3) - 1;
    size_t width = (size_t)1 << below(f, 4);

    memcpy(at, &v, width < room ? width : room);
}

/* One small change; returns the new size. */
static size_t mutate(struct fuzzer *f, uint8_t *data, size_t size)
{
    size_t at = below(f, size), n = 1 + below(f, 32);
    const struct input *other;

    switch (size ? below(f, 8) : 5) {
    case 0:
        data[at] ^= (uint8_t)(1 << below(f, 8));
        return size;
    case 1:
        data[at] = (uint8_t)next(f);
        return size;
    case 2:
    case 3:
        put_number(f, data + at, size - at);
        return size;
    case 4:
        return below(f, 8) == 0 ? at : size; /* cut off */
    case 5:                                  /* insert */
        if (size + n > f->max_len)
            return size;
        memmove(data + at + n, data + at, size - at);
        memset(data + at, (int)next(f), n);
        return size + n;
    case 6: /* take out */
        if (at + n >= size)
            return size;
        memmove(data + at, data + at + n, size - at - n);
        return size - n;
    default: /* a piece of some seed over what is there */
        other = &f->seeds[below(f, f->nseeds)];
        n = 1 + below(f, 256);
        n = n < size - at ? n : size - at;
        n = n < other->size ? n : other->size;
        memcpy(data + at, other->data + below(f, other->size - n + 1), n);
        return size;
    }
}

static void run_one(const uint8_t *data, size_t size)
{
    uint8_t *exact = malloc(size ? size : 1);

    if (size)
        memcpy(exact, data, size);
    current.data = exact;
    current.size = size;
    LLVMFuzzerTestOneInput(exact, size);
    free(exact);
}

static void save_input(int sig)
{
    int fd = open("crash-input", O_WRONLY | O_CREAT | O_TRUNC, 0600);

    if (fd >= 0 && write(fd, current.data, current.size) == (ssize_t)current.size)
        (void)!write(2, "input saved as crash-input\n", 27);
    signal(sig, SIG_DFL);
    raise(sig);
}

static void fuzz(struct fuzzer *f, long runs)
{
    uint8_t *buf = malloc(f->max_len + INPUT_MAX);

    for (size_t i = 0; i < f->nseeds; i++)
        run_one(f->seeds[i].data, f->seeds[i].size);
    for (long r = 0; r < runs; r++) {
        const struct input *seed = &f->seeds[below(f, f->nseeds)];
        size_t size = seed->size;

        memcpy(buf, seed->data, size);
        for (size_t n = 1 + below(f, 12); n > 0; n--)
            size = mutate(f, buf, size);
        run_one(buf, size);
    }
    free(buf);
}

int main(int argc, char **argv)
{
    struct fuzzer f = {.random = 88172645463325252u, .max_len = INPUT_MAX};
    uint8_t *buf = malloc(INPUT_MAX);
    long runs = 10000;
    size_t size;

    signal(SIGSEGV, save_input);
    signal(SIGBUS, save_input);
    signal(SIGILL, save_input);
    signal(SIGABRT, save_input);
    for (int i = 0; (size = pb_fuzz_seed(i, buf, INPUT_MAX)) != 0; i++)
        add_seed(&f, buf, size);
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "-runs=", 6) == 0)
            runs = atol(argv[i] + 6);
        else if (strncmp(argv[i], "-seed=", 6) == 0)
            f.random ^= strtoull(argv[i] + 6, NULL, 10) * 0x9e3779b97f4a7c15u;
        else if (strncmp(argv[i], "-max_len=", 9) == 0)
            f.max_len = strtoull(argv[i] + 9, NULL, 10) % INPUT_MAX;
        else if (argv[i][0] != '-')
            add_path(&f, argv[i], buf);
    }
    if (f.nseeds == 0)
        add_seed(&f, (const uint8_t *)"", 1);
    fuzz(&f, runs);
    printf("%ld runs over %zu seeds: no crash\n", runs, f.nseeds);
    for (size_t i = 0; i < f.nseeds; i++)
        free(f.seeds[i].data);
    free(buf);
    return 0;
}
