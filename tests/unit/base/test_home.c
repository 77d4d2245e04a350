#include "pb_test.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/home.h"

/* A root of the test's own, so that nobody's real folders are looked at. */
static char root[] = "/tmp/home-test-XXXXXX";

static int setup(void **state)
{
    (void)state;
    strcpy(root + sizeof root - 7, "XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static int teardown(void **state)
{
    char command[64];

    (void)state;
    snprintf(command, sizeof command, "rm -rf %s", root);
    return system(command);
}

static bool exists(const char *path)
{
    return access(path, F_OK) == 0;
}

static int listen_in(const char *home)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    snprintf(at.sun_path, sizeof at.sun_path, "%s/" PB_HOME_SOCKET, home);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(fd, 1), 0);
    return fd;
}

static void make(char path[PB_HOME_MAX], pid_t pid, uint64_t start)
{
    int fd = pb_home_create(path, root, getuid(), pid, start);

    assert_true(fd >= 0);
    close(fd);
    pb_home_path(path, root, getuid(), pid, start);
    assert_true(exists(path));
}

static void age(const char *path)
{
    struct timespec old[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};

    assert_int_equal(utimensat(AT_FDCWD, path, old, 0), 0);
}

static void made_private_and_removed(void **state)
{
    char path[PB_HOME_MAX], user[PB_HOME_MAX];
    struct stat st;
    int fd;

    (void)state;
    make(path, getpid(), 7);
    pb_home_user_path(user, root, getuid());
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    assert_int_equal(stat(user, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    make(path, getpid(), 7); /* a second time is fine: exec leaves one behind */
    fd = listen_in(path);
    assert_true(pb_home_answers(path));
    close(fd);
    assert_false(pb_home_answers(path));
    pb_home_remove(path);
    assert_false(exists(path));
    assert_false(exists(user));
}

/* The name is taken by something that is not our folder: another one is made, and found again. */
static void expect_spare(const char *taken)
{
    char path[PB_HOME_MAX], again[PB_HOME_MAX], user[PB_HOME_MAX];
    int fd = pb_home_create(path, root, getuid(), 1, 1);
    struct stat st;

    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(st.st_uid, getuid());
    assert_int_equal(strncmp(path, taken, strlen(taken)), 0);
    assert_int_equal(path[strlen(taken)], '-');
    close(fd);
    close(pb_home_create(again, root, getuid(), 1, 1));
    assert_string_equal(again, path);
    pb_home_path(again, root, getuid(), 1, 1);
    assert_string_equal(again, path);
    pb_home_user_path(user, root, getuid());
    assert_int_equal(strlen(user), strlen(taken) + 1 + PB_HOME_RANDOM);
    pb_home_remove(path);
    assert_false(exists(user));
}

static void squatting_does_not_work(void **state)
{
    char user[PB_HOME_MAX], elsewhere[PB_HOME_MAX], path[PB_HOME_MAX];

    (void)state;
    pb_home_user_path(user, root, getuid());
    snprintf(elsewhere, sizeof elsewhere, "%s/elsewhere", root);
    mkdir(elsewhere, 0700);
    assert_int_equal(symlink(elsewhere, user), 0);
    expect_spare(user);
    unlink(user);
    mkdir(user, 0700);
    chmod(user, 0755);
    expect_spare(user);
    chmod(user, 0700);
    if (getuid() == 0) {
        assert_int_equal(chown(user, 1, 1), 0);
        expect_spare(user);
        assert_int_equal(chown(user, 0, 0), 0);
    }
    rmdir(user);
    close(open(user, O_CREAT | O_WRONLY, 0600));
    expect_spare(user);
    /* Whoever took the name goes: what is there stays where it is. */
    close(pb_home_create(path, root, getuid(), 1, 1));
    unlink(user);
    close(pb_home_create(elsewhere, root, getuid(), 2, 2));
    assert_int_equal(strncmp(path, elsewhere, strlen(user) + 1 + PB_HOME_RANDOM), 0);
}

/* A folder of another user with such a name is not taken for ours. */
static void a_false_spare(void **state)
{
    char user[PB_HOME_MAX], spare[PB_HOME_MAX + 24], path[PB_HOME_MAX];

    (void)state;
    if (getuid() != 0)
        skip();
    pb_home_user_path(user, root, getuid());
    snprintf(spare, sizeof spare, "%s-0000000000000000", user);
    mkdir(user, 0700);
    mkdir(spare, 0700);
    assert_int_equal(chown(user, 1, 1) | chown(spare, 1, 1), 0);
    close(pb_home_create(path, root, 0, 1, 1));
    assert_int_not_equal(strncmp(path, spare, strlen(spare)), 0);
}

static void sweeping_takes_the_dead_only(void **state)
{
    char own[PB_HOME_MAX], dead[PB_HOME_MAX], heard[PB_HOME_MAX], young[PB_HOME_MAX],
        old[PB_HOME_MAX], odd[PB_HOME_MAX + 8], full[PB_HOME_MAX], kept[PB_HOME_MAX + 8];
    struct pb_home_keep keep = {.seconds = 3600, .bytes = 1 << 20};
    int fd, gone;

    (void)state;
    make(own, getpid(), pb_home_start_time(0)); /* alive, whatever its socket says */
    age(own);
    make(dead, 999999999, 1);
    gone = listen_in(dead);
    close(gone);
    make(heard, 999999998, 1); /* of another pid namespace: it listens */
    fd = listen_in(heard);
    make(young, 999999997, 1); /* between its folder and its socket */
    make(old, 999999996, 1); /* died between the two: not for a quick look */
    age(old);
    make(full, 999999995, 1); /* something of value in it */
    snprintf(kept, sizeof kept, "%s/rows", full);
    close(open(kept, O_CREAT | O_WRONLY, 0600));
    age(full);
    pb_home_user_path(odd, root, getuid());
    strcat(odd, "/x-1");
    mkdir(odd, 0700);
    age(odd);
    pb_home_sweep(root, getuid(), NULL);
    assert_true(exists(own) && exists(heard) && exists(young) && exists(odd) && exists(kept));
    assert_false(exists(dead));
    pb_home_sweep(root, getuid(), &keep);
    assert_true(exists(own) && exists(heard) && exists(young) && exists(odd) && exists(kept));
    assert_false(exists(old));
    close(fd);
}

static int listen_as(const char *name, char path[PB_HOME_MAX + 16])
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    char user[PB_HOME_MAX];
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    pb_home_user_path(user, root, getuid());
    snprintf(path, PB_HOME_MAX + 16, "%s/%s", user, name);
    strcpy(at.sun_path, path);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(fd, 1), 0);
    return fd;
}

static void sockets_of_killed_nodes_go(void **state)
{
    char own[PB_HOME_MAX], killed[PB_HOME_MAX + 16], young[PB_HOME_MAX + 16],
        heard[PB_HOME_MAX + 16];
    struct pb_home_keep keep = {.seconds = 3600, .bytes = 1 << 20};
    int fd;

    (void)state;
    make(own, getpid(), pb_home_start_time(0));
    close(listen_as("node-1", killed));
    age(killed);
    close(listen_as("node-2", young));
    fd = listen_as("node-3", heard);
    age(heard);
    pb_home_sweep(root, getuid(), NULL);
    assert_true(exists(killed)); /* not for a quick look */
    assert_int_equal(pb_home_sweep(root, getuid(), &keep), 1);
    assert_false(exists(killed));
    assert_true(exists(young) && exists(heard));
    close(fd);
}

/* A folder of a dead process with one table of some size, last written so many seconds ago. */
static void leave_table(char path[PB_HOME_MAX], int pid, size_t bytes, int ago)
{
    struct timespec then[2] = {{.tv_sec = time(NULL) - ago}, {.tv_sec = time(NULL) - ago}};
    char file[PB_HOME_MAX + 32];
    int fd;

    make(path, pid, 1);
    snprintf(file, sizeof file, "%s/python.memory.0" PB_HOME_RING, path);
    fd = open(file, O_CREAT | O_WRONLY, 0600);
    assert_int_equal(posix_fallocate(fd, 0, (off_t)bytes), 0);
    close(fd);
    assert_int_equal(utimensat(AT_FDCWD, file, then, 0), 0);
    assert_int_equal(utimensat(AT_FDCWD, path, then, 0), 0);
}

static void tables_of_the_dead_stay_for_a_while(void **state)
{
    char old[PB_HOME_MAX], first[PB_HOME_MAX], second[PB_HOME_MAX], own[PB_HOME_MAX];
    struct pb_home_keep keep = {.seconds = 3600, .bytes = 1 << 20};

    (void)state;
    leave_table(old, 999999991, 4096, 4000);
    leave_table(first, 999999992, 600 << 10, 300);
    leave_table(second, 999999993, 600 << 10, 200);
    make(own, getpid(), pb_home_start_time(0));
    assert_int_equal(pb_home_sweep(root, getuid(), NULL), 0);
    assert_true(exists(old) && exists(first) && exists(second));
    assert_int_equal(pb_home_sweep(root, getuid(), &keep), 2); /* too old; too much */
    assert_true(!exists(old) && !exists(first) && exists(second) && exists(own));
    keep.bytes = 0;
    assert_int_equal(pb_home_sweep(root, getuid(), &keep), 1);
    assert_true(!exists(second) && exists(own));
}

static void write_meta(const char *path, const char *boot)
{
    char file[PB_HOME_MAX + 8], text[128];
    int fd, n = snprintf(text, sizeof text, "format=1\nboot_id=%s\nhost=x\n", boot);

    snprintf(file, sizeof file, "%s/" PB_HOME_META, path);
    fd = open(file, O_CREAT | O_WRONLY | O_TRUNC, 0600);
    assert_int_equal(write(fd, text, (size_t)n), n);
    close(fd);
    age(path);
}

static void another_boot_is_another_process(void **state)
{
    struct pb_home_keep keep = {.seconds = 3600, .bytes = 1 << 20};
    char own[PB_HOME_MAX], boot[40];

    (void)state;
    pb_home_boot_id(boot);
    assert_int_equal(strlen(boot), 36);
    make(own, getpid(), pb_home_start_time(0));
    write_meta(own, boot);
    assert_int_equal(pb_home_sweep(root, getuid(), &keep), 0);
    write_meta(own, "00000000-0000-0000-0000-000000000000");
    assert_int_equal(pb_home_sweep(root, getuid(), &keep), 1);
    assert_false(exists(own));
}

static void *wait_for_ever(void *arg)
{
    for (;;)
        pause();
    return arg;
}

/* Its first thread ends, as a program's may; another one lives on. */
static void lose_first_thread(void)
{
    pthread_t other;

    if (pthread_create(&other, NULL, wait_for_ever, NULL) == 0)
        pthread_exit(NULL);
}

/* As /proc shows it; a process that is gone has none. */
static char state_of(pid_t pid)
{
    char path[40], text[512] = "";
    FILE *f;

    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    f = fopen(path, "r");
    assert_non_null(f);
    assert_non_null(fgets(text, sizeof text, f));
    fclose(f);
    return strrchr(text, ')')[2];
}

static void start_times(void **state)
{
    uint64_t mine = pb_home_start_time(0);
    pid_t child = fork();
    siginfo_t info;

    (void)state;
    if (child == 0) {
        lose_first_thread();
        _exit(0);
    }
    assert_true(mine > 0);
    assert_int_equal(mine, pb_home_start_time(getpid()));
    for (int i = 0; i < 1000 && state_of(child) != 'Z'; i++)
        usleep(10000);
    assert_true(pb_home_start_time(child) >= mine);
    kill(child, SIGKILL);
    /* It has ended, whether its parent has noticed or not. */
    assert_int_equal(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
    assert_int_equal(state_of(child), 'Z');
    assert_int_equal(pb_home_start_time(child), 0);
    waitpid(child, NULL, 0);
    assert_int_equal(pb_home_start_time(child), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(made_private_and_removed, setup, teardown),
        cmocka_unit_test_setup_teardown(squatting_does_not_work, setup, teardown),
        cmocka_unit_test_setup_teardown(a_false_spare, setup, teardown),
        cmocka_unit_test_setup_teardown(sweeping_takes_the_dead_only, setup, teardown),
        cmocka_unit_test_setup_teardown(sockets_of_killed_nodes_go, setup, teardown),
        cmocka_unit_test_setup_teardown(tables_of_the_dead_stay_for_a_while, setup, teardown),
        cmocka_unit_test_setup_teardown(another_boot_is_another_process, setup, teardown),
        cmocka_unit_test(start_times),
    };

    return RUN_TESTS(tests);
}
