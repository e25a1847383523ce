/* libtally: gradient aggregation for data-parallel training.
 *
 * A rank opens a session with a node, registers memory, posts operations and waits for their
 * completions, in the idiom of verbs. The node reads the inputs out of the registered memory, sums
 * them in rank order and writes the result back; posting copies nothing.
 *
 * Threads: a session and what belongs to it is used by one thread at a time. Different sessions are
 * independent. The library makes no thread of its own, but for sessions over transport fabric: one
 * for each node, that makes progress there and sleeps when there is none to make.
 * Structs: set `size` to sizeof(the struct) and zero the rest; fields are only ever appended.
 * Errors: every call that can fail returns a tally_status; tally_last_error() has the words.
 */
/* Names of a C interface, not of C++. NOLINTBEGIN(readability-identifier-naming) */
#ifndef TALLY_TALLY_H
#define TALLY_TALLY_H

#include <stddef.h>
#include <stdint.h>

/* Of libibverbs (<infiniband/verbs.h>), for programs that use it. */
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
  TALLY_UNSUPPORTED = 2,      /* understood, but not offered by this build or machine */
  TALLY_MISMATCH = 3,         /* ranks announced one operation differently */
  TALLY_DEADLINE = 4,         /* not all ranks announced in time */
  TALLY_PEER_LOST = 5,        /* a rank died or its connection broke */
  TALLY_PEER_LEFT = 6,        /* a rank closed its session */
  TALLY_NODE_LOST = 7,        /* the node died or its connection broke: open a new session */
  TALLY_CANCELLED = 8,
  TALLY_DUPLICATE = 9, /* the tag has an operation outstanding already */
  TALLY_STALE_EPOCH = 10,
  TALLY_NO_CREDIT = 11, /* too many operations outstanding: take completions first */
  TALLY_BAD_REGION = 12,
  TALLY_REFUSED = 13, /* not admitted: token, quota or limit */
  TALLY_NO_MEMORY = 14,
  TALLY_UNAVAILABLE = 15, /* no node answers at the address */
  TALLY_AGAIN = 16,       /* nothing yet (tally_wait: the timeout passed first) */
  TALLY_PROTOCOL = 17,
  TALLY_INTERNAL = 18,
  TALLY_DAMAGED = 19 /* a rank's bytes did not have the checksums that it gave for them */
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
  TALLY_REDUCE = 2,         /* the result stands at `root` alone */
  TALLY_BROADCAST = 3,      /* from `root` to all */
  TALLY_REDUCE_SCATTER = 4, /* rank r receives elements [count*r/W, count*(r+1)/W) */
  TALLY_ALL_GATHER = 5,     /* rank r contributes elements [count*r/W, count*(r+1)/W) */
  TALLY_BARRIER = 6         /* count 0, no buffers */
} tally_kind;

/* Where a buffer lies. Kinds that this build cannot use are refused by name. */
typedef enum tally_memory_kind {
  TALLY_MEMORY_HOST = 0, /* ordinary memory: adopted (mapped by the node too) or staged (copied) */
  TALLY_MEMORY_SHARED = 1, /* a memfd, populated, with F_SEAL_SHRINK and F_SEAL_SEAL, that the
                              caller has mapped at a page: `fd`, `fd_offset` */
  TALLY_MEMORY_CUDA = 2,   /* a CUDA device pointer: with an `ibv_mr` alone */
  TALLY_MEMORY_DMABUF = 3  /* a dma-buf: `fd`, `fd_offset`; over transport verbs */
} tally_memory_kind;

/* Whether a rank gives checksums (CRC32C) with its bytes. The node then checks what it has read
 * before it sums it, reads damaged bytes again, and ends the operation with TALLY_DAMAGED when that
 * does not help. It costs time: docs/perf.md has the figures. Checksums lie in memory of the
 * library's: a post for which none is free makes a call to the node for more. */
typedef enum tally_checksums {
  TALLY_CHECKSUMS_DEFAULT = 0, /* $TALLY_CHECKSUMS: "1" on, "0" off; else off */
  TALLY_CHECKSUMS_ON = 1,      /* TALLY_UNSUPPORTED where the node does not check them */
  TALLY_CHECKSUMS_OFF = 2
} tally_checksums;

typedef struct tally_session tally_session;
typedef struct tally_region tally_region;

/* Called for each line that the library has to say (which transport and why, copies it has to
 * make). `level`: 0 information, 1 warning. The text is valid during the call. */
typedef void (*tally_log_fn)(void* context, int level, const char* text);

typedef struct tally_session_options {
  size_t size;
  const char* address;          /* "unix:/path" or "tcp:host:port"; several, where nodes form a
                                   cluster, with commas: the first that answers is asked. NULL:
                                   $TALLY_ADDRESS, else unix:/run/tally/tallyd.sock, else this
                                   user's own node */
  const char* job;              /* name of the training run; NULL: "default" */
  const char* token;            /* the job's secret; NULL: none */
  uint32_t rank;                /* 0 .. ranks-1 */
  uint32_t ranks;               /* 1 .. 1024 */
  uint32_t connect_timeout_ms;  /* 0: 10 s; covers a node that is still starting */
  uint32_t default_deadline_ms; /* of operations; 0: the node's (60 s) */
  tally_log_fn log;             /* NULL: warnings go to stderr */
  void* log_context;
  struct ibv_pd* ibv_pd;     /* the caller's protection domain, to use memory that is registered in
                                it (below); NULL: the session makes one where it needs one */
  const char* transport;     /* "shm", "verbs", "verbs:DEVICE[:PORT[:GID-INDEX]]", "fabric"; NULL:
                                $TALLY_TRANSPORT, else the best that works, in this order */
  tally_checksums checksums; /* of what this rank contributes */
} tally_session_options;

/* ibv_pd: the session makes its queue pairs in this protection domain, so that the node can use the
 * caller's ibv_mr of it; several sessions may share one. It means transport verbs: where that
 * cannot be had, opening fails and says why (`transport` may say which port and GID of that device,
 * another one is TALLY_INVALID_ARGUMENT). Domain and context are the caller's, of the
 * libibverbs.so.1 of this process, and stay open until tally_close has returned; the library closes
 * neither. The context's asynchronous events are the caller's too: the library does not read them.
 * Those of the session's queue pairs and completion queue come among them: acknowledge each at
 * once, since the session cannot end before (whoever never reads events has nothing to do). A
 * device that fails (IBV_EVENT_DEVICE_FATAL) is then known to the caller first: close the session;
 * by itself it notices at the latest some seconds after an operation's deadline. */

/* Opens a session. On success *session is the caller's and ends by tally_close. On failure *session
 * is NULL and tally_last_error(NULL) has the words (per thread). */
TALLY_API tally_status tally_open(const tally_session_options* options, tally_session** session);

/* A session is used by the process that opened it. In a child of a fork every call on it returns
 * TALLY_INVALID_ARGUMENT, tally_close does nothing, and the parent's session goes on; the child may
 * open one of its own. */

/* Ends the session in good order. Operations outstanding are cancelled first; regions are taken
 * back; everything the session made is freed. NULL is allowed. */
TALLY_API void tally_close(tally_session* session);

/* The words of the last failure of this session, or of this thread's last tally_open when NULL.
 * Valid until the next call on the session. */
TALLY_API const char* tally_last_error(const tally_session* session);
TALLY_API const char* tally_status_name(tally_status status);

typedef struct tally_session_info {
  size_t size;
  uint32_t rank;
  uint32_t ranks;
  uint32_t shards;
  uint32_t credit; /* operations that may be outstanding per shard */
  uint32_t epoch;
  const char* transport; /* "shm", "verbs", "fabric"; "shm, fabric" where nodes differ */
  uint64_t copied_bytes; /* between the caller's memory and the node's, so far: what is staged, and
                            the ragged edges of what is adopted */
  uint32_t checksums;    /* 1: what this rank contributes has checksums */
} tally_session_info;

TALLY_API tally_status tally_get_info(const tally_session* session, tally_session_info* info);

/* -- memory ---------------------------------------------------------------------------------- */

/* Memory that the node can use in place: the fastest. Zeroed, page-aligned; *data is where it lies.
 * Children of a fork do not inherit it. Freed by tally_region_free, or by tally_close. */
TALLY_API tally_status tally_region_alloc(tally_session* session, size_t bytes,
                                          tally_region** region, void** data);

typedef struct tally_memory {
  size_t size;
  tally_memory_kind kind;
  void* data; /* where it lies in this process */
  size_t bytes;
  int fd;             /* TALLY_MEMORY_SHARED, TALLY_MEMORY_DMABUF; the caller may close it then */
  uint64_t fd_offset; /* bytes; of TALLY_MEMORY_SHARED a multiple of the page size */
  uint32_t flags;     /* TALLY_REGION_* */
  struct ibv_mr* ibv_mr; /* its registration in the session's ibv_pd; NULL: the library makes one */
  uint64_t iova;         /* see below; 0: as `data` */
} tally_memory;

#define TALLY_REGION_STAGE \
  1u /* copy through a buffer of the library; never move the caller's pages */

/* Registers memory of the caller's. Private anonymous memory is adopted: its whole pages move into
 * a memfd mapped at the same address (contents kept, children of a fork do not inherit them) until
 * tally_region_free puts them back. Other host memory is staged: copied by the library at post and
 * at completion; a log line says so. The memory must stay until tally_region_free.
 *
 * With `ibv_mr` the memory is what the caller has registered: all of it, or `bytes` from `data` on
 * (NULL: from its beginning; 0: to its end). It must be of the session's ibv_pd, and registered
 * with IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_REMOTE_READ and IBV_ACCESS_REMOTE_WRITE. That cannot be
 * read back from it: where one is missing the adapter refuses the node, and the session ends with
 * TALLY_NODE_LOST at the first operation. The registration stays the caller's: it must outlive the
 * region, and the library never takes it back. One that was made under another address
 * (ibv_reg_mr_iova, ibv_reg_dmabuf_mr) needs that address in `iova`. `kind` says what the memory
 * is: give TALLY_MEMORY_CUDA or TALLY_MEMORY_DMABUF (without `fd`) where the CPU may not touch it.
 *
 * Without, TALLY_MEMORY_DMABUF registers `bytes` at `fd_offset` of the dma-buf `fd`. `iova` is the
 * address that the first byte has for the adapter; 0: `data`, which is otherwise not used and may
 * be NULL. It lies as far into a page as `fd_offset`. TALLY_UNSUPPORTED where the session has
 * another transport than verbs, or the kernel, libibverbs or the adapter's driver do not import
 * dma-bufs.
 *
 * Memory of a device is never touched by the CPU. A rank that gives checksums cannot contribute
 * from it: such a tally_post returns TALLY_UNSUPPORTED. To make what was written visible to the
 * device's own work (CUDA: cudaDeviceFlushGPUDirectRDMAWrites) is the caller's, after the
 * completion. */
TALLY_API tally_status tally_region_register(tally_session* session, const tally_memory* memory,
                                             tally_region** region);

/* TALLY_AGAIN while an operation on it is outstanding. */
TALLY_API tally_status tally_region_free(tally_session* session, tally_region* region);

/* -- operations ------------------------------------------------------------------------------ */

typedef struct tally_buffer {
  tally_region* region;
  uint64_t offset; /* bytes */
} tally_buffer;

typedef struct tally_operation {
  size_t size;
  tally_kind kind;
  tally_type type;
  tally_op op;
  uint32_t tag;      /* names the bucket; the library counts its rounds */
  uint64_t count;    /* elements of the whole operation, the same at every rank */
  tally_buffer in;   /* what this rank contributes; unused by receivers that contribute nothing */
  tally_buffer out;  /* where its result goes: over the same elements of `in` (in place), or
                        apart from it */
  uint32_t root;     /* of reduce and broadcast */
  uint32_t priority; /* 0..255, higher goes first among ready operations */
  uint32_t deadline_ms; /* 0: the session's default */
  uint32_t flags;       /* TALLY_WANT_* */
  void* stream;         /* CUDA stream that orders the buffers; NULL for host memory */
  uint64_t user;        /* comes back in the completion */
} tally_operation;

/* Sum of squares and number of non-finite values of the result, at the ranks that receive it. The
 * first one of a size makes a call to the node for the memory that it needs. */
#define TALLY_WANT_STATS 1u

/* Announces the operation. The buffers belong to the node until its completion is taken. Each tag
 * has at most one operation outstanding. On failure nothing was announced. */
TALLY_API tally_status tally_post(tally_session* session, const tally_operation* operation);

#define TALLY_NO_RANK 0xffffffffu

typedef struct tally_completion {
  size_t size;
  tally_status status;
  uint32_t tag;
  uint32_t round;
  uint64_t user;
  uint32_t culprit;      /* the rank to blame, or TALLY_NO_RANK */
  uint32_t inputs_gone;  /* 1: the operation failed after result bytes may have landed in place */
  double sum_of_squares; /* TALLY_WANT_STATS */
  uint64_t nonfinite;    /* TALLY_WANT_STATS */
  char message[224];     /* on failure: what happened, who is waited for, what was announced */
} tally_completion;

/* Takes up to `max` completions without waiting; returns how many. Set completions[0].size; all
 * entries have that size. */
TALLY_API int tally_poll(tally_session* session, tally_completion* completions, int max);

/* Waits until one completion can be taken and takes it. TALLY_AGAIN when timeout_ms passes first
 * (negative: until the operations' own deadlines end the wait). The operation's own status is in
 * completion->status. TALLY_INVALID_ARGUMENT when nothing is outstanding. */
TALLY_API tally_status tally_wait(tally_session* session, tally_completion* completion,
                                  int timeout_ms);

/* Asks to take the operation of this tag back. Its completion still comes: TALLY_CANCELLED, or how
 * it ended before. All ranks get the same. */
TALLY_API tally_status tally_cancel(tally_session* session, uint32_t tag);

/* A descriptor for event loops: readable when there may be completions. Before waiting on it call
 * tally_arm: TALLY_OK, wait; TALLY_AGAIN, there are completions already: poll first. The
 * descriptor is the session's. */
TALLY_API int tally_fd(tally_session* session);
TALLY_API tally_status tally_arm(tally_session* session);

/* tally_post and tally_wait in one, for programs with one operation at a time. Completions of other
 * operations that arrive meanwhile are kept for tally_poll and tally_wait. */
TALLY_API tally_status tally_run(tally_session* session, const tally_operation* operation,
                                 tally_completion* completion);

#ifdef __cplusplus
}
#endif
#endif
/* NOLINTEND(readability-identifier-naming) */
