// Decides which version of the plan carries a rank's next post during a change of the plan. The
// coordinator has the other half (control/coordinator/state/change.h): it asks all ranks, decides
// for all, and announces when all ranks know the decision. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <set>

namespace tally::client {

// By tag: the first round that the new version carries; 0 for tags that are not in the map.
using FirstRounds = std::map<std::uint32_t, std::uint32_t>;

class PlanSwitch {
 public:
  enum class Stage : std::uint8_t {
    kSteady,
    kHolding,  // this rank has reported its rounds and posts nothing
    kKnowing,  // this rank has reported that it knows the decision
    kMoving,   // all ranks know the decision: the old version carries the rounds before the first
               // rounds
  };
  // Which version carries a round. kNew: the newest one; without a change it is the only one.
  // kNone: no version carries the round yet.
  enum class By : std::uint8_t { kOld, kNew, kNone };

  Stage stage() const { return stage_; }
  bool holds() const { return stage_ == Stage::kHolding || stage_ == Stage::kKnowing; }

  // The events of a change, in this order. An event in another stage changes nothing.
  void hold();
  void know(FirstRounds first);
  // `next` has the next round of each tag that this rank has posted.
  void go(const std::map<std::uint32_t, std::uint32_t>& next);
  // This rank no longer needs the old version.
  void finish();

  // Cancels the change; the old version continues.
  void call_off();
  // The version in use is lost. This rank posts nothing until a repair, which is a change without
  // an old version: hold() is done, know() follows, and repaired() takes the place of go().
  void interrupt();
  // All ranks know the decision. Returns the first rounds of the new version, which carries all.
  FirstRounds repaired();
  // The coordinator is lost. False in stage kKnowing: the other ranks may have moved or not, so
  // this rank cannot follow them. Otherwise the old version continues, or in stage kMoving both
  // versions as decided.
  bool go_on_alone();

  By carrier(std::uint32_t tag, std::uint32_t round) const;
  // The first round of the tag that the new version carries. Precondition: stage kMoving.
  std::uint32_t first(std::uint32_t tag) const;
  // The caller has posted that round.
  void posted(std::uint32_t tag, std::uint32_t round);
  // Whether this rank has made all posts that the old version carries. behind() has the tags that
  // still have such posts.
  bool is_past() const { return stage_ == Stage::kMoving && behind_.empty(); }
  const std::set<std::uint32_t>& behind() const { return behind_; }  // tags

 private:
  Stage stage_ = Stage::kSteady;
  FirstRounds first_;
  std::set<std::uint32_t> behind_;
};

}  // namespace tally::client
