/*
 * A C program with an interpreter inside, in the ways of servers that fork workers:
 * embed_fork fork SCRIPT starts Python, forks without a word to it, runs the script in the child;
 * embed_fork idle        has Python at hand, but never starts it;
 * embed_fork ended       has started and ended it.
 */
#include <Python.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int run_file(const char *path)
{
    FILE *file = fopen(path, "r");

    return !file || PyRun_SimpleFileEx(file, path, 1);
}

static int rest(void)
{
    printf("ready %d\n", (int)getpid());
    fflush(stdout);
    for (;;)
        pause();
}

int main(int argc, char **argv)
{
    int status = 0;
    pid_t child;

    if (argc < 2)
        return 2;
    if (strcmp(argv[1], "idle") == 0)
        return rest() + (Py_IsInitialized() ? 1 : 0);
    Py_Initialize();
    if (strcmp(argv[1], "ended") == 0) {
        Py_Finalize();
        return rest();
    }
    /* A thread of the parent that the child does not have, but still finds in Python's lists. */
    PyRun_SimpleString("import threading, time\n"
                       "t = threading.Thread(target=time.sleep, args=(1000,), name='parent only')\n"
                       "t.daemon = True\n"
                       "t.start()\n");
    child = fork();
    if (child == 0)
        return argc > 2 ? run_file(argv[2]) : 2;
    waitpid(child, &status, 0);
    return status ? 1 : 0;
}
