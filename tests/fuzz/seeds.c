/*
 * seeds.c - for libFuzzer: the fuzzer's own seeds, as files of the corpus folder.
 *
 * The folder is the first argument that is one; without it there are no seeds.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define SEEDS_MAX 64
#define INPUT_MAX ((size_t)256 * 1024)

int LLVMFuzzerInitialize(int *argc, char ***argv);
size_t pb_fuzz_seed(int index, uint8_t *buf, size_t cap);

static const char *find_folder(int argc, char **argv)
{
    struct stat st;

    for (int i = 1; i < argc; i++)
        if (argv[i][0] != '-' && stat(argv[i], &st) == 0 && S_ISDIR(st.st_mode))
            return argv[i];
    return NULL;
}

static void write_seed(const char *folder, int index, const uint8_t *data, size_t size)
{
    char path[4096];
    int fd;

    snprintf(path, sizeof path, "%s/seed-%d", folder, index);
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        perror(path);
    if (fd >= 0)
        close(fd);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    const char *folder = find_folder(*argc, *argv);
    uint8_t *buf = folder ? malloc(INPUT_MAX) : NULL;

    for (int i = 0; buf && i < SEEDS_MAX; i++) {
        size_t size = pb_fuzz_seed(i, buf, INPUT_MAX);

        if (!size)
            break;
        write_seed(folder, i, buf, size);
    }
    free(buf);
    return 0;
}
