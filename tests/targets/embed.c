/* A C program with an interpreter inside: runs the script named by its first argument. */
#include <Python.h>
#include <stdio.h>

int probing_embed_run(const char *path);

int probing_embed_run(const char *path)
{
    FILE *file = fopen(path, "r");

    if (!file)
        return 1;
    return PyRun_SimpleFileEx(file, path, 1) ? 1 : 0;
}

int main(int argc, char **argv)
{
    int rc;

    if (argc < 2)
        return 2;
    Py_Initialize();
    rc = probing_embed_run(argv[1]);
    Py_Finalize();
    return rc;
}
