// The request session.open and its answer, as functions over plain values: what a client asks for,
// and what it must know to attach its session. The node admits the session in between.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "control/node/jobs/admission.h"
#include "control/node/node_options.h"
#include "control/node/session.h"
#include "net/server/peer.h"

namespace tally::control {

// Reads the parameters of session.open, without the owner of the job. Refuses a client of another
// version of the control protocol.
Result<Admission::Applicant> parse_opening(const nlohmann::json& params);

// The hosts where a client that connects from there may have its endpoints. A client on this
// machine has them where the node has its own.
std::vector<std::string> endpoint_hosts(const rpc::Peer& client, const NodeOptions& options);

// The answer to session.open. rails: of the job's shards; empty when the node has no rails.
nlohmann::json opening_answer(const Session& session, const NodeOptions& options,
                              const std::vector<Rail>& rails);

}  // namespace tally::control
