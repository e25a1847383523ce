// The shard of one part in one version, at the node that owns the part. It stands for
// dataplane/protocol/matching/matching.h (notices), dataplane/protocol/tiles/tiles.h (pull, sum, push) and
// dataplane/protocol/verdicts/verdicts.h (the end). Nodes know nothing of repairs. A node that the coordinator has
// lost goes on as before, or does nothing more: no shard has to take a step.

// The rank has an operation there that has not ended.
#define POSTED_TO(w, v, p) \
  (rank[w].version == (v) && !(rank[w].parts_ended & BIT(p)) && (SHARD(v, p).open & BIT(w)))
// Rank 0 has a place in each version.
#define POSTED_LIKE_0(w, v, p) \
  (!(MEMBERS(v) & BIT(w)) || (POSTED_TO(w, v, p) && rank[w].number == rank[0].number))
#if RANKS == 2
#define ALL_POSTED_TO(v, p) (POSTED_TO(0, v, p) && POSTED_LIKE_0(1, v, p))
#else
#define ALL_POSTED_TO(v, p) (POSTED_TO(0, v, p) && POSTED_LIKE_0(1, v, p) && POSTED_LIKE_0(2, v, p))
#endif
#ifdef OTHER_WAY
// Part 0 is the sums, and part 1 their results, which go to the ranks another way. One root decides for both.
#define READY_TO_SUM(v, p) \
  ((p) == 1 && ALL_POSTED_TO(v, 0) && ALL_POSTED_TO(v, 1) && SHARD(v, 1).done != rank[0].number && \
   !((SHARD(v, 0).failed | SHARD(v, 1).failed) & BIT(rank[0].number)))
#define MAY_END_WELL(v, p) (SHARD(v, p).pushed == MEMBERS(v) && !(SHARD(v, 0).failed & BIT(SHARD(v, p).pushing)))
#define DONE(v, p) SHARD(v, 1).done
#else
#define READY_TO_SUM(v, p) \
  (ALL_POSTED_TO(v, p) && SHARD(v, p).done != rank[0].number && !(SHARD(v, p).failed & BIT(rank[0].number)))
#define MAY_END_WELL(v, p) (SHARD(v, p).pushed == MEMBERS(v))
#define DONE(v, p) SHARD(v, p).done
#endif
#define MAY_PUSH(v, p, w) \
  ((SHARD(v, p).open & BIT(w)) && rank[w].status != CRASHED && !(SHARD(v, p).pushed & BIT(w)) && \
   (SHARD(v, p).pushing > 0 || READY_TO_SUM(v, p)))

// Before the first push: the pulls. Contributions in place that a result has replaced are wrong. (The pulls need no
// step of their own: what they read changes only when an operation ends, and then its ranks have fenced the shard.)
inline pull(v, p) {
  SHARD(v, p).pushing = rank[0].number;
  SHARD(v, p).right = true;
#ifdef STALE_STORES
  SHARD(v, p).strangers = 0;
#endif
  for (x : 0 .. RANKS - 1) {
    if
    :: MEMBERS(v) & BIT(x) ->
#ifdef IN_PLACE
       SHARD(v, p).right = SHARD(v, p).right && RESULT(x, p) == 0;
#endif
       SHARD(v, p).right = SHARD(v, p).right && rank[x].round == rank[x].number
    :: else ->
#ifdef STALE_STORES
       SHARD(v, p).strangers =
         SHARD(v, p).strangers | (rank[x].version != 0 && rank[x].number == rank[0].number) * BIT(x);
#endif
       skip
    fi
  }
  EVENT("pull version=%d part=%d round=%d right=%d\n", v, p, SHARD(v, p).pushing, SHARD(v, p).right)
}

// One push lands, and its acknowledgement comes back. After the last one the operation has succeeded.
inline push(v, p, w) {
  if
  :: SHARD(v, p).pushing == 0 -> pull(v, p)
  :: else
  fi;
  EVENT("push version=%d part=%d rank=%d round=%d\n", v, p, w, SHARD(v, p).pushing);
  REACHES_GOAL(GOAL_LATE_WRITE, SHARD(v, p).open != MEMBERS(v));
  REQUIRE(application_buffer_written, rank[w].status == POSTED);
  RESULT(w, p) = (SHARD(v, p).right -> RESULT_OF(SHARD(v, p).pushing, MEMBERS(v)) : WRONG);
#ifdef STALE_STORES
  RESULT(w, p) = RESULT(w, p) | (16 * SHARD(v, p).strangers);
#endif
#ifdef OTHER_WAY
  RESULT(w, 0) = RESULT(w, 1);  // both parts have the same elements
#endif
  SHARD(v, p).pushed = SHARD(v, p).pushed | BIT(w);
  if
  :: MAY_END_WELL(v, p) ->
     SHARD(v, p).done = SHARD(v, p).pushing;
#ifdef STANDS_FIRST
     SHARD(v, p).known = 0;
#endif
     SHARD(v, p).pushing = 0;
     SHARD(v, p).pushed = 0
  :: else
  fi
}
#if defined(NO_COMMIT) && defined(OTHER_WAY)
#define HAS_SUCCEEDED(v, p, w) \
  (DONE(v, p) == rank[w].number || \
   (SHARD(v, 1).pushing == rank[w].number && ((p) == 0 || (SHARD(v, 1).pushed & BIT(w)))))
#elif defined(NO_COMMIT)
#define HAS_SUCCEEDED(v, p, w) \
  (SHARD(v, p).done == rank[w].number || \
   (SHARD(v, p).pushing == rank[w].number && (SHARD(v, p).pushed & BIT(w))))
#elif defined(STANDS_FIRST)
#define HAS_SUCCEEDED(v, p, w) (SHARD(v, p).done == rank[w].number && SHARD(v, p).known == MEMBERS(v))
#define MAY_SAY(v, p, w) (SHARD(v, p).done > 0 && (SHARD(v, p).open & BIT(w)) && !(SHARD(v, p).known & BIT(w)))
#else
#define HAS_SUCCEEDED(v, p, w) (DONE(v, p) == rank[w].number)
#endif
#define HAS_FAILED(v, p, w) (SHARD(v, p).failed & BIT(rank[w].number))

// Verdicts::fail(): the round ends with an error. The shard keeps the verdict for ranks that announce it later. When
// another part has failed, or a rank has cancelled, this one may fail too.
#define MAY_FAIL(v, p, w) \
  (POSTED_TO(w, v, p) && DONE(v, p) != rank[w].number && !HAS_FAILED(v, p, w) && \
   (failures_left > 0 || (failed_rounds & BIT(rank[w].number))))
inline fail(v, p, w) {
  k = rank[w].number;
  EVENT("fail version=%d part=%d round=%d\n", v, p, k);
  if
  :: failed_rounds & BIT(k)
  :: else -> failures_left--
  fi;
  failed_rounds = failed_rounds | BIT(k);
  SHARD(v, p).failed = SHARD(v, p).failed | BIT(k);
  if
  :: SHARD(v, p).pushing == k -> SHARD(v, p).pushing = 0; SHARD(v, p).pushed = 0
  :: else
  fi
#ifdef EAGER
  ;
  for (x : 0 .. RANKS - 1) {
    if
    :: rank[x].kept == k -> excused_rounds = excused_rounds | BIT(k)  // it succeeded there, and is done again
    :: else
    fi
  }
#endif
}

#ifdef EAGER
// Verdicts::conclude() of an eager operation. It follows the last notice at once: to do it later would add nothing,
// because its results may be taken late, or never. A rank may do a round again that it has kept.
#define AGAIN_AT(w, v) (rank[w].again && rank[w].again_version == (v) && (SHARD(v, 0).open & BIT(w)))
#define CONTRIBUTES(w, v, r) \
  ((AGAIN_AT(w, v) && rank[w].kept == (r)) || (!AGAIN_AT(w, v) && POSTED_TO(w, v, 0) && rank[w].number == (r)))
inline conclude_eager(v, r) {
  flag = !(SHARD(v, 0).failed & BIT(r)) && SHARD(v, 0).done != r;
  good = true;
  for (x : 0 .. RANKS - 1) {
    flag = flag && (!(MEMBERS(v) & BIT(x)) || CONTRIBUTES(x, v, r));
    good = good && (!(MEMBERS(v) & BIT(x)) || AGAIN_AT(x, v) || rank[x].round == rank[x].number)
  }
  if
  :: flag ->
     SHARD(v, 0).done = r;
     SHARD(v, 0).right = good;
     EVENT("conclude version=%d round=%d right=%d\n", v, r, good)
  :: else
  fi
}
#endif

#if !defined(EAGER) || FAILURES > 0 || CANCELS > 0
#define SHARDS_STEP
proctype Shard(byte v; byte p) {
end:
  do
#ifndef EAGER
  :: STEP(MAY_PUSH(v, p, 0), push(v, p, 0))
  :: STEP(MAY_PUSH(v, p, 1), push(v, p, 1))
#if RANKS > 2
  :: STEP(MAY_PUSH(v, p, 2), push(v, p, 2))
#endif
#endif
#ifdef STANDS_FIRST
  :: STEP(MAY_SAY(v, p, 0), SHARD(v, p).known = SHARD(v, p).known | BIT(0))
  :: STEP(MAY_SAY(v, p, 1), SHARD(v, p).known = SHARD(v, p).known | BIT(1))
#if RANKS > 2
  :: STEP(MAY_SAY(v, p, 2), SHARD(v, p).known = SHARD(v, p).known | BIT(2))
#endif
#endif
#if FAILURES > 0 || CANCELS > 0
  :: STEP(MAY_FAIL(v, p, 0), fail(v, p, 0))
  :: STEP(MAY_FAIL(v, p, 1), fail(v, p, 1))
#if RANKS > 2
  :: STEP(MAY_FAIL(v, p, 2), fail(v, p, 2))
#endif
#endif
  od
}
#endif
