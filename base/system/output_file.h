// An output file that gets its name only when it is complete. The old file at the path stays until
// then. It also stays when the writer fails, is killed, or finds no space. A killed writer leaves
// no partial file. Only a writer that is killed inside commit() can leave a second name,
// .tally-PID-N, in the folder.
#pragma once

#include <array>
#include <memory>
#include <ostream>
#include <streambuf>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/system/fd.h"

namespace tally {

// Writes a stream's bytes to a descriptor. Remembers the error of the first write that failed.
class DescriptorBuffer : public std::streambuf {
 public:
  explicit DescriptorBuffer(UniqueFd file);
  int fd() const { return file_.get(); }
  int error() const { return error_; }  // errno; 0 means no error

 protected:
  int_type overflow(int_type c) override;
  int sync() override;

 private:
  UniqueFd file_;
  int error_ = 0;
  std::array<char, 1 << 16> buffer_;
};

class OutputFile {
 public:
  // Returns an error at once when the caller cannot write `path`, before any work is lost. A
  // symbolic link stays a link: commit() replaces the target, and the target keeps its permissions.
  // When `path` is not a regular file (/dev/stdout, a pipe), the stream writes to it directly.
  static Result<OutputFile> create(const std::string& path);

  std::ostream& stream() { return *stream_; }

  // Writes everything to the disk and gives the file its name. Call this once, as the last call.
  Outcome commit();

 private:
  OutputFile() = default;

  std::string path_;    // as given, for messages
  std::string target_;  // the path after symbolic links; empty when it is not a regular file
  // On the heap, because they must not move with the object.
  std::unique_ptr<DescriptorBuffer> buffer_;
  std::unique_ptr<std::ostream> stream_;
};

// Writes the whole text. The error names `path`; the caller adds the option that `path` came from.
Outcome write_file(const std::string& path, std::string_view text);

}  // namespace tally
