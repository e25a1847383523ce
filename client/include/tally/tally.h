/* libtally: gradient aggregation for data-parallel training.
 *
 * A rank opens a session with a node, registers memory, posts operations and waits for their
 * completions, as a program does with verbs. The node reads the inputs out of the registered
 * memory, sums them in rank order and writes the result back. tally_post copies only staged memory,
 * the edges of adopted memory (tally_region_register), and small contributions that travel with the
 * notice.
 *
 * Units: sizes and offsets are in bytes, counts are in elements, and times are in milliseconds.
 *
 * Ownership: the caller owns a session from tally_open to tally_close. The session owns its regions
 * and every text that it returns.
 *
 * Threads: one thread at a time uses a session and its regions. A call that starts during another
 * call on the same session does nothing, returns TALLY_INVALID_ARGUMENT and names both calls in the
 * error message. The other call can be on another thread, or it can be the call around the
 * session's log function. tally_fd and tally_last_error are allowed during another call. Sessions
 * are independent of each other. Transport fabric makes threads: at most four for each session, for
 * any number of nodes. The first region of kind TALLY_MEMORY_CUDA makes one thread more, which may
 * also call the session's log function. These threads sleep when there is no progress to make.
 *
 * Structs: the caller sets `size` to sizeof(the struct) and zeroes the other fields that it does
 * not use. Later releases only append fields. A call returns TALLY_INVALID_ARGUMENT and does
 * nothing when no release has a struct of that size.
 *
 * Errors: every call that can fail returns a tally_status. tally_poll returns a negative status,
 * and tally_fd returns -1. tally_last_error() describes the failure.
 */
/* Names of a C interface, not of C++. NOLINTBEGIN(readability-identifier-naming) */
#ifndef TALLY_TALLY_H
#define TALLY_TALLY_H

#include <stddef.h>
#include <stdint.h>

/* Types of libibverbs (<infiniband/verbs.h>), for programs that use it. */
struct ibv_pd;
struct ibv_mr;

#ifdef __cplusplus
extern "C" {
#endif

#define TALLY_API __attribute__((visibility("default")))

#define TALLY_VERSION_MAJOR 0
#define TALLY_VERSION_MINOR 1

typedef enum tally_status {
  TALLY_OK = 0,
  TALLY_INVALID_ARGUMENT = 1, /* a value that can never be right; the message names it */
  TALLY_UNSUPPORTED = 2,      /* this build or machine does not offer the request */
  TALLY_MISMATCH = 3,         /* ranks announced one operation differently */
  TALLY_DEADLINE = 4,         /* not all ranks announced the operation in time */
  TALLY_PEER_LOST = 5,        /* a rank died, or its connection broke */
  TALLY_PEER_LEFT = 6,        /* a rank closed its session */
  TALLY_NODE_LOST = 7,        /* the node died, or its connection broke: open a new session */
  TALLY_CANCELLED = 8,
  TALLY_DUPLICATE = 9, /* the tag already has an outstanding operation */
  TALLY_STALE_EPOCH = 10,
  TALLY_NO_CREDIT = 11, /* too many outstanding operations: take completions first */
  TALLY_BAD_REGION = 12,
  TALLY_REFUSED = 13, /* the node did not admit the request: token, quota or limit */
  TALLY_NO_MEMORY = 14,
  TALLY_UNAVAILABLE = 15, /* no node answers at the address */
  TALLY_AGAIN = 16,       /* nothing yet; from tally_wait: the timeout passed first */
  TALLY_PROTOCOL = 17,
  TALLY_INTERNAL = 18,
  TALLY_DAMAGED = 19 /* the bytes of a rank do not match the checksums that it gave */
} tally_status;

typedef enum tally_type {
  TALLY_F32 = 0,
  TALLY_F64 = 1,
  TALLY_F16 = 2,
  TALLY_BF16 = 3,
  TALLY_I8 = 4,
  TALLY_U8 = 5,
  TALLY_I32 = 6,
  TALLY_I64 = 7
} tally_type;

typedef enum tally_op { TALLY_SUM = 0, TALLY_AVERAGE = 1, TALLY_MIN = 2, TALLY_MAX = 3 } tally_op;

typedef enum tally_kind {
  TALLY_ALL_REDUCE = 1,
  TALLY_REDUCE = 2,         /* only rank `root` receives the result */
  TALLY_BROADCAST = 3,      /* from rank `root` to all ranks */
  TALLY_REDUCE_SCATTER = 4, /* rank r receives elements [count*r/W, count*(r+1)/W) */
  TALLY_ALL_GATHER = 5,     /* rank r contributes elements [count*r/W, count*(r+1)/W) */
  TALLY_BARRIER = 6         /* count must be 0; there are no buffers */
} tally_kind;

/* The kind of memory of a buffer. A call that gets a kind that this build cannot use fails and
 * names the kind. */
typedef enum tally_memory_kind {
  TALLY_MEMORY_HOST = 0,   /* ordinary memory: used in place, adopted (the node maps it too) or
                              staged (copied); see tally_region_register */
  TALLY_MEMORY_SHARED = 1, /* a populated memfd with F_SEAL_SHRINK and F_SEAL_SEAL; the caller
                              has mapped it at a page boundary and sets `fd` and `fd_offset` */
  TALLY_MEMORY_CUDA = 2,   /* memory of a CUDA device; `data` is the device pointer */
  TALLY_MEMORY_DMABUF = 3  /* a dma-buf at `fd` and `fd_offset`; needs transport verbs */
} tally_memory_kind;

/* Whether a rank gives checksums (CRC32C) of the bytes that it contributes. With checksums the node
 * checks the bytes before it sums them. It reads damaged bytes again, and ends the operation with
 * TALLY_DAMAGED when the bytes stay damaged. Checksums cost time: docs/perf.md has the figures. The
 * library keeps the checksums in its own memory. A tally_post makes a call to the node when none of
 * that memory is free. */
typedef enum tally_checksums {
  TALLY_CHECKSUMS_DEFAULT = 0, /* as $TALLY_CHECKSUMS says: "1" on, "0" off; off when not set */
  TALLY_CHECKSUMS_ON = 1, /* tally_open fails with TALLY_UNSUPPORTED if the node cannot check */
  TALLY_CHECKSUMS_OFF = 2
} tally_checksums;

/* What happens to the job when it loses a rank: when the process of a rank ends without
 * tally_close, or is cut off. All ranks of a job have the same policy and quorum, else
 * tally_open fails.
 *
 * With TALLY_RANK_LOSS_FAIL the job ends: operations fail with TALLY_PEER_LOST.
 * With TALLY_RANK_LOSS_FINISH the job goes on without the rank, in the same step. Ranks keep their
 * numbers, and the job keeps its number of ranks.
 * - A rank is lost, too, when it has not announced an operation by its deadline and at least half
 *   of the ranks that are left have; with a quorum, any number is enough. So is a rank that has
 *   closed its session and that another rank misses.
 * - An operation that has succeeded at one rank has succeeded at all ranks that are left. Other
 *   outstanding operations are done again without the contribution of the rank.
 * - TALLY_SUM, TALLY_MIN and TALLY_MAX have the values of the ranks that are left. TALLY_AVERAGE
 *   divides by their number, which all of them find in tally_completion.contributors.
 * - An operation that needs the rank fails at once with TALLY_PEER_LOST and this rank as culprit: a
 *   reduce or broadcast with it as root, and a reduce-scatter or all-gather in which it has
 *   elements.
 * - The job ends with TALLY_PEER_LOST when fewer ranks would be left than the quorum.
 * - A rank that was left out may open a new session with its number. It takes part again from the
 *   rounds on that its first completions show, which may belong to two steps of a program. The old
 *   session of a rank that was late or cut off is over. It may have had, in each tag, one result
 *   that the others then computed without it.
 * - Each operation in place keeps a copy of the contribution, as with TALLY_PRESERVE. Small
 *   operations take one more round trip than otherwise where the nodes are on other machines.
 * - tally_open fails with TALLY_UNSUPPORTED when no coordinator serves the job, or when the
 *   coordinator is of a release that does not know the policy. */
typedef enum tally_rank_loss {
  TALLY_RANK_LOSS_DEFAULT = 0, /* as $TALLY_ON_RANK_LOSS says: "fail" or "finish"; fail when it is
                                  not set */
  TALLY_RANK_LOSS_FAIL = 1,
  TALLY_RANK_LOSS_FINISH = 2
} tally_rank_loss;

typedef struct tally_session tally_session;
typedef struct tally_region tally_region;

/* The library calls this function for each log line, such as the chosen transport with the reason,
 * or a copy that the library must make. `level` is 0 for information and 1 for a warning. `text` is
 * valid during the call. The function must not use the session. */
typedef void (*tally_log_fn)(void* context, int level, const char* text);

typedef struct tally_session_options {
  size_t size;
  const char* address; /* "unix:/path" or "tcp:host:port". Nodes of a cluster may be listed
                          with commas: the library asks the first node that answers.
                          NULL: $TALLY_ADDRESS, else unix:/run/tally/tallyd.sock, else the
                          node of this user */
  const char* job;     /* name of the training run; NULL: "default" */
  const char*
      token;      /* a token for the job, "@FILE" for the first line of FILE; NULL: $TALLY_TOKEN */
  uint32_t rank;  /* 0 .. ranks-1 */
  uint32_t ranks; /* ranks of the job: 1 .. 1024 */
  uint32_t connect_timeout_ms;  /* 0: 10 s; includes the start of a node that is still starting */
  uint32_t default_deadline_ms; /* of operations that set none; 0: the node's (60 s) */
  tally_log_fn log;             /* NULL: warnings go to stderr */
  void* log_context;            /* first argument of `log` */
  struct ibv_pd* ibv_pd;     /* the caller's protection domain, so that the session can use memory
                                that is registered in it (see below); NULL: the session makes one
                                when it needs one */
  const char* transport;     /* "shm", "verbs", "verbs:DEVICE[:PORT[:GID-INDEX]]" or "fabric". NULL:
                                $TALLY_TRANSPORT, else the first in this order that works */
  tally_checksums checksums; /* whether this rank gives checksums of its contributions */
  tally_rank_loss on_rank_loss; /* what happens when the job loses a rank */
  uint32_t quorum; /* with TALLY_RANK_LOSS_FINISH: the least number of ranks with which the job
                      goes on, at most `ranks`. 0: $TALLY_QUORUM; no quorum when that is not set */
} tally_session_options;

/* ibv_pd: the session makes its queue pairs in this protection domain, so that the node can use an
 * ibv_mr of the same domain. Several sessions may share one domain. A domain implies transport
 * verbs: tally_open fails with the reason when verbs is not available. `transport` may name the
 * port and the GID of the domain's device; another device is TALLY_INVALID_ARGUMENT.
 *
 * The caller owns the domain and its context. Both must belong to the libibverbs.so.1 of this
 * process, and both must stay open until tally_close has returned. The library closes neither.
 *
 * The caller also owns the asynchronous events of the context: the library does not read them. They
 * include the events of the session's queue pairs and completion queue. A caller that reads events
 * must acknowledge each of these at once, because the session cannot end before. A caller that
 * never reads events has nothing to do. The caller therefore learns first of a device that fails
 * (IBV_EVENT_DEVICE_FATAL), and must then close the session. Otherwise the session notices the
 * failure at the latest some seconds after the deadline of an operation. */

/* Opens a session. On success *session belongs to the caller until tally_close. On failure *session
 * is NULL, and tally_last_error(NULL) on the same thread has the message. */
TALLY_API tally_status tally_open(const tally_session_options* options, tally_session** session);

/* Only the process that opened a session may use it. In the child of a fork every call on the
 * session returns TALLY_INVALID_ARGUMENT, and tally_close does nothing. The session of the parent
 * continues. The child may open its own session. */

/* Ends the session. It first cancels the outstanding operations, then takes the regions back from
 * the node, and then frees everything that the session made. NULL is allowed. During another call
 * on the session it only reports that call to the log function, and the session stays open. */
TALLY_API void tally_close(tally_session* session);

/* Returns why the last call on this session failed. The text is empty when that call succeeded. For
 * NULL it describes this thread's last tally_open, or its last call with NULL as session. A thread
 * whose call was refused because of another call gets the message of that refusal. The text is
 * valid until the next call on the session, or for NULL until the next such call on this thread.
 * tally_last_error itself and a tally_fd that succeeds do not change the message. */
TALLY_API const char* tally_last_error(const tally_session* session);
/* Returns the name of a status as a static text, "unknown status" for other values. */
TALLY_API const char* tally_status_name(tally_status status);

typedef struct tally_session_info {
  size_t size;
  uint32_t rank;
  uint32_t ranks;
  uint32_t shards; /* of all nodes of the session */
  uint32_t credit; /* how many operations may be outstanding at each shard */
  uint32_t epoch;
  const char* transport; /* "shm", "verbs", "fabric"; "shm, fabric" when the nodes differ; valid
                            until tally_close */
  uint64_t copied_bytes; /* bytes copied so far between the caller's memory and the node's: all of
                            staged memory, that of devices included, and the edges of adopted
                            memory */
  uint32_t checksums;    /* 1 when this rank gives checksums of its contributions, else 0 */
  uint32_t left_out;     /* ranks of the job that are lost and left out now, with
                            TALLY_RANK_LOSS_FINISH */
} tally_session_info;

/* Fills *info, up to the size that the caller set. */
TALLY_API tally_status tally_get_info(const tally_session* session, tally_session_info* info);

/* -- memory ---------------------------------------------------------------------------------- */

/* Allocates memory that the node can use in place; this is the fastest kind. The memory is zeroed
 * and page-aligned, and *data is its address. Children of a fork do not inherit it. The library
 * frees it in tally_region_free or tally_close. The call populates all of the memory. Before that
 * it returns TALLY_REFUSED when the quota of the job or of the node has no room for the memory, and
 * TALLY_NO_MEMORY when this machine or a cgroup has less free memory. */
TALLY_API tally_status tally_region_alloc(tally_session* session, size_t bytes,
                                          tally_region** region, void** data);

typedef struct tally_memory {
  size_t size;
  tally_memory_kind kind;
  void* data; /* address of the memory in this process */
  size_t bytes;
  int fd; /* of TALLY_MEMORY_SHARED and TALLY_MEMORY_DMABUF; the caller may close it after
             the call */
  uint64_t fd_offset;    /* bytes; for TALLY_MEMORY_SHARED a multiple of the page size */
  uint32_t flags;        /* TALLY_REGION_* */
  struct ibv_mr* ibv_mr; /* the registration of the memory in the session's ibv_pd; NULL: the
                            library makes one */
  uint64_t iova;         /* the address that the adapter uses (see below); 0: as `data` */
} tally_memory;

#define TALLY_REGION_STAGE \
  1u /* copy through a buffer of the library; never move the caller's pages */

/* Registers memory of the caller. The memory must stay, with its protection, until
 * tally_region_free.
 *
 * When no node of the session uses transport shm, the nodes use host and shared memory where it
 * lies. Otherwise the nodes map TALLY_MEMORY_SHARED, and for TALLY_MEMORY_HOST:
 * - The library adopts private anonymous memory. It moves the whole pages into a memfd that it maps
 *   at the same address. The contents stay, and children of a fork do not inherit these pages.
 *   tally_region_free puts the pages back.
 * - The library stages other memory, and all memory with TALLY_REGION_STAGE: it copies the bytes at
 *   tally_post and at the completion. A log line reports copies that no flag asked for.
 *
 * An operation may contribute from read-only memory. Read-only memory as `out` of an operation is
 * TALLY_INVALID_ARGUMENT. Memory that is not mapped or cannot be read is TALLY_INVALID_ARGUMENT
 * here. Quotas and free memory limit the call as they limit tally_region_alloc.
 *
 * With `ibv_mr` the region is the memory that the caller has registered: all of it, or `bytes` from
 * `data` on. `data` NULL means from its beginning, and `bytes` 0 means to its end. The ibv_mr must
 * belong to the session's ibv_pd. It must have IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_REMOTE_READ and
 * IBV_ACCESS_REMOTE_WRITE. The library cannot read these flags back: when one is missing, the
 * adapter refuses the node, and the session ends with TALLY_NODE_LOST at the first operation. The
 * caller keeps the registration: it must outlive the region, and the library never deregisters it.
 * A registration that was made under another address (ibv_reg_mr_iova, ibv_reg_dmabuf_mr) needs
 * that address in `iova`. `kind` names the kind of memory: use TALLY_MEMORY_CUDA or
 * TALLY_MEMORY_DMABUF (without `fd`) when the CPU may not touch it.
 *
 * Without `ibv_mr`, TALLY_MEMORY_DMABUF registers `bytes` at `fd_offset` of the dma-buf `fd`.
 * `iova` is the address of the first byte for the adapter. 0 means the value of `data`, which has
 * no other use and may be NULL. The address must have the same offset in a page as `fd_offset`. The
 * call returns TALLY_UNSUPPORTED when the session has another transport than verbs, or when the
 * kernel, libibverbs or the driver of the adapter do not import dma-bufs.
 *
 * The library never touches memory of a device with the CPU. A rank that gives checksums cannot
 * contribute from such memory: tally_post returns TALLY_UNSUPPORTED. After the completion the
 * caller must make the result visible to the device's own work (CUDA:
 * cudaDeviceFlushGPUDirectRDMAWrites).
 *
 * TALLY_MEMORY_CUDA without `ibv_mr` is memory of one allocation of a CUDA device, such as
 * cudaMalloc makes. The library opens CUDA's driver at run time: TALLY_UNSUPPORTED when there is
 * none, or one before CUDA 12.0. With transport verbs the adapter reaches the memory itself, as a
 * dma-buf or by the kernel module nvidia-peermem. Otherwise the region is staged: the bytes travel
 * through a copy of the same size in pinned host memory, which the nodes use. The log says which of
 * these it is, and why. The copy takes the memory that tally_region_alloc takes, and counts as
 * locked memory. Regions of a rank that gives checksums are always staged. */
TALLY_API tally_status tally_region_register(tally_session* session, const tally_memory* memory,
                                             tally_region** region);

/* Takes the region back from the node and frees it. TALLY_AGAIN while an operation on the region is
 * outstanding. TALLY_BAD_REGION when `region` is not a region of this session. */
TALLY_API tally_status tally_region_free(tally_session* session, tally_region* region);

/* -- operations ------------------------------------------------------------------------------ */

typedef struct tally_buffer {
  tally_region* region;
  uint64_t offset; /* bytes from the beginning of the region */
} tally_buffer;

typedef struct tally_operation {
  size_t size;
  tally_kind kind;
  tally_type type;
  tally_op op;
  uint32_t tag;      /* number of the bucket, such as the index of a tensor; the library counts the
                        rounds of each tag */
  uint64_t count;    /* elements of the whole operation, the same at every rank */
  tally_buffer in;   /* what this rank contributes; unused at a rank that contributes nothing */
  tally_buffer out;  /* where this rank's result goes: exactly over the same elements of `in` (in
                        place), or apart from `in` */
  uint32_t root;     /* rank; of reduce and broadcast */
  uint32_t priority; /* 0..255; among ready operations the higher priority goes first */
  uint32_t deadline_ms; /* 0: the session's default */
  uint32_t flags;       /* TALLY_WANT_STATS, TALLY_PRESERVE */
  void* stream;         /* a CUDA stream (cudaStream_t or CUstream) that orders the buffers (see
                           below); NULL for host memory */
  uint64_t user;        /* the completion returns this value */
} tally_operation;

/* An operation with a buffer of kind TALLY_MEMORY_CUDA that the library has registered has its
 * place in the order of `stream`, or of the legacy default stream when `stream` is NULL. It begins
 * when the stream has done the work that was enqueued before the call. Work that is enqueued after
 * the call begins when the result stands in the device's memory, also when the operation fails.
 * Neither tally_post nor the library's thread waits for the stream. But CUDA blocks a caller while
 * a stream has some 1000 calls outstanding. The completion comes when the result stands in the
 * device's memory, so the caller needs it only to learn of failures and to use the tag again.
 *
 * - All ranks post their operations on device memory in the same order, and all have device memory
 *   (else TALLY_MISMATCH). A stream that waits for an operation holds up later work, and so ranks
 *   with different orders could wait for each other until the deadline.
 * - An operation of more than 512 KiB is made of chunks, which have tags of their own from 2^31 on.
 *   Its tag must be below 2^21, and other tags of the session below 2^31.
 * - When the stream is being captured, the call posts nothing: each launch of the graph is a round
 *   of the operation. The tag belongs to the graph from then on. Its rounds have completions only
 *   when they fail. The regions stay until tally_close. tally_close must come after the last launch
 *   has ended (cudaStreamSynchronize).
 * - The buffers must belong to one device. Operations of one device that are outstanding or belong
 *   to graphs are at most 256 (TALLY_NO_CREDIT).
 * - When the device itself fails, the completion has the status TALLY_INTERNAL and CUDA's text.
 * - When a call of CUDA fails in tally_post, tally_post returns the error (TALLY_INTERNAL or
 *   TALLY_NO_MEMORY) and nothing is announced. When chunks were announced before, it returns
 *   TALLY_OK and the completion has the error. In both cases the content of `out` is undefined.
 * - tally_close cancels what is outstanding and waits at most 5 seconds for the streams. */

/* Asks for the sum of squares and the number of non-finite values of the result, at the ranks that
 * receive it. Only all-reduce and reduce have them; for other kinds tally_post returns
 * TALLY_UNSUPPORTED. The first such operation of a size makes a call to the node for memory. */
#define TALLY_WANT_STATS 1u

/* Keeps a copy of what this rank contributes in place, until the operation has ended. Without it, a
 * node that is lost in the middle may leave no contribution from which the operation could be done
 * again, and the operation fails at all ranks. Operations apart, and those of at most 8 KiB, need
 * no such copy. TALLY_RANK_LOSS_FINISH implies the flag. The flag has no effect when the job cannot
 * be repaired: without a coordinator, or with a rank of an older release. Memory of a device that
 * an adapter reaches itself is not copied. */
#define TALLY_PRESERVE 2u

/* Announces the operation. The node owns the buffers until the caller takes the completion. Each
 * tag has at most one outstanding operation (else TALLY_DUPLICATE). After a failure nothing is
 * announced. */
TALLY_API tally_status tally_post(tally_session* session, const tally_operation* operation);

#define TALLY_NO_RANK 0xffffffffu

typedef struct tally_completion {
  size_t size;
  tally_status status;
  uint32_t tag;
  uint32_t round;
  uint64_t user;
  uint32_t culprit;      /* the rank that caused the failure, or TALLY_NO_RANK */
  uint32_t inputs_gone;  /* 1: the operation failed, and result bytes may have overwritten `in` */
  double sum_of_squares; /* with TALLY_WANT_STATS */
  uint64_t nonfinite;    /* with TALLY_WANT_STATS */
  char message[224]; /* on failure: what happened, which rank is missing, what ranks announced; on
                        success: which ranks are left out, such as "without ranks 1, 4 and 12 more",
                        or an empty text */
  uint32_t contributors; /* on success: ranks of the job less those that are left out, for all kinds
                            of operations; the same at all ranks that are left; of chunks of device
                            memory the least; 0 on failure */
} tally_completion;

/* Takes up to `max` completions without waiting, and returns how many; 0 means that nothing has
 * completed. The caller sets completions[0].size; all entries have that size. The call takes
 * nothing and returns -TALLY_INVALID_ARGUMENT for an unknown size, NULL or a negative max, and
 * during another call on the session. */
TALLY_API int tally_poll(tally_session* session, tally_completion* completions, int max);

/* Waits for one completion and takes it. timeout_ms is in milliseconds; a negative value waits
 * until the deadlines of the operations end the wait. TALLY_OK means that *completion is set; the
 * status of the operation is in completion->status. With any other return value no completion was
 * taken, and *completion is unchanged:
 * - TALLY_AGAIN: the timeout passed first.
 * - TALLY_INVALID_ARGUMENT: nothing is outstanding, or an argument is wrong.
 * - Any other error: the session is over. Outstanding operations do not complete yet, because a
 *   node that has stopped in the middle of its work may still write to the buffers. The node keeps
 *   these buffers, and tally_region_free refuses them, until a later tally_poll or tally_wait
 *   returns the completions. That happens when the process of the node has continued or has ended.
 */
TALLY_API tally_status tally_wait(tally_session* session, tally_completion* completion,
                                  int timeout_ms);

/* Asks the node to cancel the outstanding operation of this tag. The completion still comes. Its
 * status is TALLY_CANCELLED, or the status of an operation that had ended before. All ranks get the
 * same status. TALLY_INVALID_ARGUMENT when the tag has no outstanding operation. */
TALLY_API tally_status tally_cancel(tally_session* session, uint32_t tag);

/* tally_fd returns a descriptor for event loops. It is readable when there may be completions. The
 * session owns it, and it is the same for the life of the session. tally_fd returns -1 for NULL and
 * for a session of another process.
 *
 * Before the caller waits on the descriptor, it must call tally_arm. TALLY_OK: wait. TALLY_AGAIN:
 * completions are there already, so call tally_poll first. Another error: as tally_wait's. */
TALLY_API int tally_fd(tally_session* session);
TALLY_API tally_status tally_arm(tally_session* session);

/* Posts the operation and waits for its completion, for programs with one operation at a time. The
 * session keeps completions of other operations for tally_poll and tally_wait. */
TALLY_API tally_status tally_run(tally_session* session, const tally_operation* operation,
                                 tally_completion* completion);

#ifdef __cplusplus
}
#endif
#endif
/* NOLINTEND(readability-identifier-naming) */
