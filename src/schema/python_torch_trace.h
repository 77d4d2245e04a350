/*
 * python_torch_trace.h - the columns of python.torch_trace.
 *
 * Owns: nothing; a list. Threads: any. Fails: never.
 * Not here: who writes it (agent/collectors/).
 */
#ifndef PB_SCHEMA_PYTHON_TORCH_TRACE_H
#define PB_SCHEMA_PYTHON_TORCH_TRACE_H

#define PB_PYTHON_TORCH_TRACE_NAME "python.torch_trace"
#define PB_PYTHON_TORCH_TRACE_DOC "calls of torch modules, one row a module and stage, as they end"

/* X(column, type, unit, doc) */
#define PB_PYTHON_TORCH_TRACE(X)                                                                  \
    X(timestamp, TIME, "", "when it began")                                                       \
    X(step, INT, "", "training step")                                                             \
    X(seq, INT, "", "order within the step: that of the ends")                                    \
    X(module, NAME, "", "dotted name of the module")                                              \
    X(module_type, NAME, "", "class of the module")                                               \
    X(stage, NAME, "", "forward, backward, optimizer")                                            \
    X(operation_name, NAME, "", "module and stage in one word")                                   \
    X(duration_ms, REAL, "ms", "time on the host")                                                \
    X(gpu_ms, REAL, "ms", "time on the GPU, for steps where it is measured")                      \
    X(allocated, REAL, "MB", "memory in tensors of the whole process when it ended")              \
    X(max_allocated, REAL, "MB", "most that was in tensors so far")                               \
    X(cached, REAL, "MB", "memory held by CUDA's allocator")                                      \
    X(allocated_delta, REAL, "MB", "what it left in tensors, less what it freed")                 \
    X(self_ms, REAL, "ms", "duration_ms without modules inside; NULL: not told apart")            \
    X(root, NAME, "", "outermost module, or the optimizer; a second one of its class has #2")     \
    X(phase, NAME, "", "train, eval (no gradients, or eval()), data (called by a data loader)")   \
    X(tid, INT, "", "thread")

#endif

#ifdef PB_TABLE /* tables.def is being read */
PB_TABLE(PB_PYTHON_TORCH_TRACE)
#endif

#ifdef PB_COLLECTOR /* the agent's list of collectors is being read */
PB_COLLECTOR(torch)
#endif
