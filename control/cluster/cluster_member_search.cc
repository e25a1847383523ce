// How a node finds its coordinator, and joins the next one when it has lost it.
#include <algorithm>
#include <numeric>
#include <utility>

#include "base/clock.h"
#include "control/cluster/cluster_member.h"
#include "control/cluster/interruptible.h"

namespace tally::control {
namespace {

constexpr Nanos kFirstSearchPause = 100 * kMillisecond;
constexpr Nanos kLongestPause = 2 * kSecond;
constexpr Nanos kShortPause = 200 * kMillisecond;      // where coordinators are elected
constexpr Nanos kHandshake = 3 * kSecond;              // for the network to answer a connection
constexpr Nanos kShortHandshake = 500 * kMillisecond;  // the same where coordinators are elected
constexpr Nanos kElection = 2 * kSecond;  // for other nodes that start at the same time

// The indexes of the addresses, with those that have been silent for the shortest time last. So a
// coordinator that stands still does not delay the search for the next one.
std::vector<std::size_t> by_silence(const std::vector<std::string>& addresses,
                                    const std::map<std::string, Nanos>& silent) {
  std::vector<std::size_t> order(addresses.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto since = [&](std::size_t index) {
    const auto found = silent.find(addresses[index]);
    return found == silent.end() ? Nanos{0} : found->second;
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return since(a) < since(b); });
  return order;
}

}  // namespace

void ClusterMember::listen_for_news() {
  Nanos wait = kFirstSearchPause;
  while (!stopping()) {
    const auto address = find_coordinator();
    const bool was_member = address && be_member_at(*address);
    set_electing(false);
    if (was_member) {
      wait = kFirstSearchPause;
      searching_since_ = 0;
      refused_.clear();
    } else if (address) {
      refused_.insert(*address);
    }
    if (!pause(wait)) return;
    wait = std::min(2 * wait, elects() ? kShortPause : kLongestPause);
  }
}

bool ClusterMember::elects() const {
  return !options_.cluster.store.empty() || least_term() > 0;
}

// Returns none when no member answers or this node stops.
std::optional<std::string> ClusterMember::find_coordinator() {
  const auto addresses = options_.cluster.addresses();
  if (searching_since_ == 0) {
    searching_since_ = monotonic_now();
    stepped_aside_ = false;
  }
  while (!stopping()) {
    // This node reports its election before it queries the others. So the others see it, or this
    // node sees theirs.
    set_electing(!stepped_aside_ && options_.cluster.store.empty());
    const auto answers = ask_all();
    const bool patient = monotonic_now() - searching_since_ < kElection;
    const auto choice = choose_coordinator(answers, patient, least_term());
    const bool itself = choice.join && answers[*choice.join].is_this_node;
    if (choice.join && !(itself && stepped_aside_)) {
      if (!itself) set_electing(false);
      return addresses[*choice.join];
    }
    const bool anybody =
        std::any_of(answers.begin(), answers.end(), [](const auto& one) { return one.answers; });
    if (!anybody) return std::nullopt;
    if (std::exchange(stepped_aside_, choice.step_aside) && itself) continue;
    if (choice.step_aside) set_electing(false);
    if (!pause(kFirstSearchPause)) break;
  }
  return std::nullopt;
}

std::vector<CoordinatorAnswer> ClusterMember::ask_all() {
  const auto addresses = options_.cluster.addresses();
  std::vector<CoordinatorAnswer> answers(addresses.size());
  std::optional<Error> why;
  bool anybody = false, elected = false;
  for (const std::size_t i : by_silence(addresses, silent_)) {
    if (stopping() || elected) break;
    // Where coordinators are elected, a machine that does not answer must not delay the others.
    auto channel = rpc::RpcChannel::connect(addresses[i], 0, options_.credentials,
                                            elects() ? kShortHandshake : kHandshake);
    Result<CoordinatorAnswer> answer = CoordinatorAnswer{};
    if (channel) {
      const Interruptible interruptible(*this, channel->fd());
      answer = ask_coordinator(*channel, instance_, monotonic_now() + kElection);
    } else {
      answer = channel.error();
    }
    if (!answer) {
      if (!why) why = answer.error();
      if (elects()) silent_[addresses[i]] = monotonic_now();
      continue;
    }
    silent_.erase(addresses[i]);
    answers[i] = *answer;
    elected = answer->term.value_or(0) >= std::max<std::uint64_t>(least_term(), 1);
    answers[i].answers &= answer->has_members || answer->term || !refused_.contains(addresses[i]);
    anybody |= answers[i].answers;
  }
  if (!anybody) refused_.clear();
  if (!anybody && why) complain(addresses.front(), *why);
  return answers;
}

void ClusterMember::set_electing(bool electing) {
  const std::lock_guard lock(mutex_);
  electing_ = electing;
}

}  // namespace tally::control
