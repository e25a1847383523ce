// The content of a verdict, and its form in messages. These are functions over plain values.
#pragma once

#include <cstdint>

#include "base/containers/ring.h"
#include "dataplane/protocol/operations/operation.h"

namespace tally::protocol {

wire::Completion completion_of(const Verdict& verdict, Nanos elapsed);
Verdict verdict_of(const wire::Completion& completion);
// Returns the completion of an operation that has its verdict, without a cookie.
wire::Completion completion_of(const OperationRecord& operation, std::uint32_t epoch,
                               Nanos elapsed);

// Returns the message to a parent that an operation has failed.
RingEntry failure_report(const OperationKey& key, std::uint16_t part, std::uint32_t epoch,
                         const Verdict& verdict);

// Returns the message to child nodes and parents that a job has lost a member or a parent.
RingEntry broken_message(std::uint32_t epoch, const Verdict& broken);

// Returns whether a child or parent node may send this verdict: it names only ranks that exist, or
// none, and its status is one of an operation.
bool sensible(const Verdict& verdict, std::uint16_t ranks);

// Compares two announcements field by field. Returns kOk when they agree, else kMismatch with the
// first field in which they differ.
Verdict compare(const Shape& first, std::uint16_t first_rank, const Shape& later,
                std::uint16_t later_rank);

// A failed operation has waited for the rank's memory. When it is past its deadline and its verdict
// names no rank, the verdict names this one.
void name_culprit(OperationRecord& operation, std::uint16_t rank);

}  // namespace tally::protocol
