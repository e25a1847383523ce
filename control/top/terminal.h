// The terminal that a view is drawn on: its other screen, without echo, and as it was at the end,
// however that comes. Signals that end or resize are taken as events. One per process; one thread.
#pragma once

#include <termios.h>

#include <optional>
#include <string_view>

#include "base/clock.h"
#include "base/fd.h"
#include "control/top/render.h"

namespace tally::control::top {

class Terminal {
 public:
  // Standard output is a terminal. Threads that are made later take none of the signals.
  Terminal();
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  Screen size() const;
  // In place of what is there. `text` fits the screen; lines end with '\n'.
  void draw(std::string_view text) const;

  enum class Event { kTime, kReadable, kRedraw, kQuit };
  // What comes first: the time, `fd` (-1: none) becomes readable, the window changes or is shown
  // again, or the user wants to end: q, Ctrl-C, or a signal.
  Event wait(Nanos until, int fd);
  // That ended it; 0: it was q.
  int signal() const { return signal_; }

 private:
  void enter();
  void leave();
  Event on_signal();
  Event on_key();

  UniqueFd signals_;
  std::optional<termios> before_;  // of standard input, where that is a terminal
  bool keys_end_ = false;          // nobody types there any more
  int signal_ = 0;
};

}  // namespace tally::control::top
