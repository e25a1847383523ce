// The JSON form of the coordinator's messages to ranks, which are the answers to job.next
// (docs/control.md). Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "control/coordinator/state/change.h"
#include "control/coordinator/state/jobs/job_versions.h"

namespace tally::control {

// "prepare", "decided", "go", "leave", "called off" or "ended".
const char* word_text(Change::Word word);

// Adds "first", the first round of each tag.
void put_first(nlohmann::json& message, const Rounds& first);

// Adds all fields to `message` except the version of kPrepare and the term.
void put_notification(nlohmann::json& message, const RankNotification& notification);

}  // namespace tally::control
