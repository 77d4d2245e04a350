/*
 * python_comm.h - the columns of python.comm.
 *
 * Owns: nothing; a list. Threads: any. Fails: never.
 * Not here: who writes it (agent/collectors/).
 */
#ifndef PB_SCHEMA_PYTHON_COMM_H
#define PB_SCHEMA_PYTHON_COMM_H

#define PB_PYTHON_COMM_NAME "python.comm"
#define PB_PYTHON_COMM_DOC "communication between ranks through torch.distributed"

/* X(column, type, unit, doc) */
#define PB_PYTHON_COMM(X)                                                                         \
    X(timestamp, TIME, "", "when it began")                                                       \
    X(step, INT, "", "training step")                                                             \
    X(op, NAME, "", "all_reduce, broadcast, send, …")                                             \
    X(src_rank, INT, "", "rank that sends, for a collective this rank")                           \
    X(dst_rank, INT, "", "rank that receives; none for a collective")                             \
    X(group_name, NAME, "", "process group")                                                      \
    X(group_size, INT, "", "ranks in the group")                                                  \
    X(seq, INT, "", "number of the operation in its group")                                       \
    X(bytes, INT, "bytes", "data of this rank")                                                   \
    X(dtype, NAME, "", "type of the elements")                                                    \
    X(latency_ms, REAL, "ms", "from the call to its end; on a GPU as its stream had it")          \
    X(state, NAME, "", "started, enqueued (GPU); done, failed, dropped, captured; seen")          \
    X(job, NAME, "", "job that the ranks belong to: its master's address")

#endif

#ifdef PB_TABLE /* tables.def is being read */
PB_TABLE(PB_PYTHON_COMM)
#endif

#ifdef PB_COLLECTOR /* the agent's list of collectors is being read */
PB_COLLECTOR(torch_comm)
#endif
