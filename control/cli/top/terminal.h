// The terminal that shows a view. The constructor switches to the alternate screen without echo,
// and the destructor restores the old state. Signals that end the program or resize the window
// arrive as events. One object per process; one thread uses it.
#pragma once

#include <termios.h>

#include <optional>
#include <string_view>

#include "base/clock.h"
#include "base/system/fd.h"
#include "control/cli/top/render.h"

namespace tally::control::top {

class Terminal {
 public:
  // Precondition: standard output is a terminal. Blocks the handled signals, so threads that start
  // later do not receive them.
  Terminal();
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  Screen size() const;
  // Replaces the shown text. `text` must fit the screen, and its lines end with '\n'.
  void draw(std::string_view text) const;

  enum class Event { kTime, kReadable, kRedraw, kQuit };
  // Returns the first event: the time is `until`, `fd` becomes readable (-1 means none), the window
  // changes or is shown again, or the user ends the program by q, Ctrl-C or a signal.
  Event wait(Nanos until, int fd);
  // Returns the signal that ended the program; 0 when it was q.
  int signal() const { return signal_; }

 private:
  void enter();
  void leave();
  Event on_signal();
  Event on_key();

  UniqueFd signals_;
  std::optional<termios> before_;  // settings of standard input, if it is a terminal
  bool keys_end_ = false;          // standard input has ended
  int signal_ = 0;
};

}  // namespace tally::control::top
