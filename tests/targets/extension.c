/* An extension module whose functions call Python back, one of them from deep inside. */
#include <Python.h>

PyObject *probing_call_back(PyObject *self, PyObject *callable);
PyObject *probing_call_deep(PyObject *self, PyObject *callable);
PyMODINIT_FUNC PyInit_probing_extension(void);

static __attribute__((noinline)) PyObject *deeper(PyObject *callable, int depth)
{
    PyObject *found = depth ? deeper(callable, depth - 1) : PyObject_CallObject(callable, NULL);

    __asm__ volatile("" ::: "memory");
    return found;
}

PyObject *probing_call_back(PyObject *self, PyObject *callable)
{
    PyObject *found = PyObject_CallObject(callable, NULL);

    __asm__ volatile("" ::: "memory");
    return found;
}

PyObject *probing_call_deep(PyObject *self, PyObject *callable)
{
    PyObject *found = deeper(callable, 5);

    __asm__ volatile("" ::: "memory");
    return found;
}

static PyMethodDef methods[] = {
    {"call_back", probing_call_back, METH_O, "calls its argument"},
    {"call_deep", probing_call_deep, METH_O, "calls its argument from further down"},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "probing_extension", NULL, -1, methods};

PyMODINIT_FUNC PyInit_probing_extension(void)
{
    return PyModule_Create(&module);
}
