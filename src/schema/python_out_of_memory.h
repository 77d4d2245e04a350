/*
 * python_out_of_memory.h - the columns of python.out_of_memory.
 *
 * Owns: nothing; a list. Threads: any. Fails: never.
 * Not here: who writes it (agent/collectors/).
 */
#ifndef PB_SCHEMA_PYTHON_OUT_OF_MEMORY_H
#define PB_SCHEMA_PYTHON_OUT_OF_MEMORY_H

#define PB_PYTHON_OUT_OF_MEMORY_NAME "python.out_of_memory"
#define PB_PYTHON_OUT_OF_MEMORY_DOC                                                               \
    "memory that torch could not have, and the biggest modules then, a row each"

/* X(column, type, unit, doc) */
#define PB_PYTHON_OUT_OF_MEMORY(X)                                                                \
    X(timestamp, TIME, "", "when it happened, the same in all rows of one event")                 \
    X(step, INT, "", "training step")                                                             \
    X(device, NAME, "", "cpu, or cuda:0 and so on")                                               \
    X(stage, NAME, "", "forward, backward; none: elsewhere, or not known")                        \
    X(inside, NAME, "", "module that was being called, the innermost one that is known")          \
    X(wanted, REAL, "MB", "what was asked for")                                                   \
    X(free, REAL, "MB", "what the device had left")                                               \
    X(allocated, REAL, "MB", "memory in tensors")                                                 \
    X(cached, REAL, "MB", "memory held by the allocator")                                         \
    X(place, INT, "", "1 for the biggest module; none where no module is known")                  \
    X(module, NAME, "", "dotted name of the module")                                              \
    X(module_type, NAME, "", "class of the module")                                               \
    X(parameters, REAL, "MB",                                                                     \
      "the module's own parameters and buffers, without those of modules inside")                 \
    X(gradients, REAL, "MB", "gradients of these parameters")                                     \
    X(activations, REAL, "MB", "what the module's last traced call left allocated, by itself")   \
    X(message, TEXT, "", "what torch said")

#endif

#ifdef PB_TABLE /* tables.def is being read */
PB_TABLE(PB_PYTHON_OUT_OF_MEMORY)
#endif
