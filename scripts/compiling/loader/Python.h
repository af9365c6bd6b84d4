/* What the loaders of single modules call of Python's C interface. Each is some forty lines of C, and there is one for
   each compiled module: with the whole of Python.h they take a fifth of the time of all compilation. */
#include <stddef.h>

typedef struct _object PyObject;

#define PyMODINIT_FUNC __attribute__((visibility("default"))) PyObject *
#define Py_DECREF Py_DecRef

void Py_DecRef(PyObject *);
PyObject *Py_BuildValue(const char *, ...);
PyObject *PyImport_ImportModuleLevel(const char *, PyObject *, PyObject *, PyObject *, int);
PyObject *PyObject_GetAttrString(PyObject *, const char *);
void *PyCapsule_GetPointer(PyObject *, const char *);
void PyErr_Clear(void);
