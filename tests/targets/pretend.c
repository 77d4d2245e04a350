/* A program that looks like the interpreter of a version, and does nothing: -DPRETEND="3.5.9". */
#include <stdio.h>
#include <unistd.h>

const char *Py_GetVersion(void);

const char *Py_GetVersion(void)
{
    return PRETEND;
}

int main(void)
{
    printf("ready %d\n", (int)getpid());
    fflush(stdout);
    pause();
    return Py_GetVersion()[0];
}
