/*
 * kinds.h - the operations between ranks: which method of ProcessGroup each is.
 *
 * Owns: nothing; a list. Threads: any. Fails: never.
 * Not here: what a call is about (args.c).
 */
#ifndef PB_AGENT_COMM_KINDS_H
#define PB_AGENT_COMM_KINDS_H

enum { PB_COMM_KINDS = 32 };

/* Which other rank a method names. */
enum pb_comm_role { PB_COMM_ALL, PB_COMM_FROM_ROOT, PB_COMM_TO_ROOT, PB_COMM_SEND, PB_COMM_RECV };

struct pb_comm_kind {
    const char *method, *op;
    int data; /* number of the argument with this rank's data; 0: none */
    enum pb_comm_role role;
};

/* Methods of ProcessGroup, in all versions of torch. X(method, op, data, role) */
#define PB_COMM_METHODS(X)                                                                        \
    X(allreduce, all_reduce, 1, PB_COMM_ALL)                                                      \
    X(allreduce_coalesced, all_reduce_coalesced, 1, PB_COMM_ALL)                                  \
    X(broadcast, broadcast, 1, PB_COMM_FROM_ROOT)                                                 \
    X(reduce, reduce, 1, PB_COMM_TO_ROOT)                                                         \
    X(allgather, all_gather, 2, PB_COMM_ALL)                                                      \
    X(_allgather_base, all_gather_into_tensor, 2, PB_COMM_ALL)                                    \
    X(all_gather_single, all_gather_into_tensor, 2, PB_COMM_ALL)                                  \
    X(allgather_coalesced, all_gather_coalesced, 2, PB_COMM_ALL)                                  \
    X(all_gather_single_coalesced, all_gather_into_tensor_coalesced, 2, PB_COMM_ALL)              \
    X(allgather_into_tensor_coalesced, all_gather_into_tensor_coalesced, 2, PB_COMM_ALL)          \
    X(gather, gather, 2, PB_COMM_TO_ROOT)                                                         \
    X(scatter, scatter, 1, PB_COMM_FROM_ROOT)                                                     \
    X(reduce_scatter, reduce_scatter, 2, PB_COMM_ALL)                                             \
    X(_reduce_scatter_base, reduce_scatter_tensor, 2, PB_COMM_ALL)                                \
    X(reduce_scatter_single, reduce_scatter_tensor, 2, PB_COMM_ALL)                               \
    X(reduce_scatter_single_coalesced, reduce_scatter_tensor_coalesced, 2, PB_COMM_ALL)           \
    X(reduce_scatter_tensor_coalesced, reduce_scatter_tensor_coalesced, 2, PB_COMM_ALL)           \
    X(alltoall_base, all_to_all_single, 2, PB_COMM_ALL)                                           \
    X(all_to_all_single, all_to_all_single, 2, PB_COMM_ALL)                                       \
    X(alltoall, all_to_all, 2, PB_COMM_ALL)                                                       \
    X(send, send, 1, PB_COMM_SEND)                                                                \
    X(recv, recv, 1, PB_COMM_RECV)                                                                \
    X(recv_anysource, recv, 1, PB_COMM_RECV)                                                      \
    X(barrier, barrier, 0, PB_COMM_ALL)                                                           \
    X(monitored_barrier, monitored_barrier, 0, PB_COMM_ALL)

/* In the order of PB_COMM_METHODS; ends with a NULL method. */
extern const struct pb_comm_kind pb_comm_kinds[];

#endif
