// A rank's part in a change of its job's plan: which version carries its next post. The other part
// is the coordinator's (control/coordinator/change.h), which has asked all ranks, decides for all,
// and says when all know. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <set>

namespace tally::client {

// By tag: the first round that the new version carries. Of tags that are not there: 0.
using FirstRounds = std::map<std::uint32_t, std::uint32_t>;

class PlanSwitch {
 public:
  enum class Stage : std::uint8_t {
    kSteady,
    kHolding,  // this rank has said which rounds it is at, and adds none to them
    kKnowing,  // it has said that it knows the decision
    kMoving,   // all know: what is before the first rounds goes by the old version
  };
  enum class By : std::uint8_t { kOld, kNew, kNobody };  // kNobody: not yet

  Stage stage() const { return stage_; }
  bool holds() const { return stage_ == Stage::kHolding || stage_ == Stage::kKnowing; }

  // What happens, in this order; each is ignored where it does not fit.
  void hold();
  void know(FirstRounds first);
  // `next`: what this rank would post next, of each tag that it has posted.
  void go(const std::map<std::uint32_t, std::uint32_t>& next);
  // This rank needs the old version no more.
  void finish();

  // The old version goes on.
  void call_off();
  // Nothing will be heard of the coordinator any more. False: the others may have moved or not, and
  // this rank can follow neither. Else the old version goes on, or both as it was decided.
  bool go_on_alone();

  By carrier(std::uint32_t tag, std::uint32_t round) const;
  // The first round of the tag that the new version carries; while moving.
  std::uint32_t first(std::uint32_t tag) const;
  // The rank has posted that round.
  void posted(std::uint32_t tag, std::uint32_t round);
  // No post of this rank goes by the old version any more.
  bool is_past() const { return stage_ == Stage::kMoving && behind_.empty(); }
  const std::set<std::uint32_t>& behind() const { return behind_; }  // tags

 private:
  Stage stage_ = Stage::kSteady;
  FirstRounds first_;
  std::set<std::uint32_t> behind_;
};

}  // namespace tally::client
