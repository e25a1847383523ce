#include "base/system/output_file.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

namespace tally {
namespace {

constexpr int kMostAttempts = 100;  // names that killed processes may have left

Error cannot_write(const std::string& path, int why) {
  return Error{why == ENOSPC || why == EDQUOT ? Status::kNoMemory : Status::kInvalidArgument,
               fmt::format("cannot write {}: {}", path, std::strerror(why))};
}

mode_t new_file_mode() {
  const mode_t mask = ::umask(0);
  ::umask(mask);
  return 0666 & ~mask;
}

// A path that does not exist yet may be a link to a file that does not exist yet.
std::string target_of(const std::string& path) {
  std::error_code failed;
  const auto target = std::filesystem::weakly_canonical(path, failed);
  return failed ? path : target.string();
}

std::string folder_of(const std::string& target) {
  const auto folder = std::filesystem::path(target).parent_path();
  return folder.empty() ? "." : folder.string();
}

// Opens a file of the folder without a name. It disappears with its descriptor.
UniqueFd open_unnamed(const std::string& folder, mode_t mode) {
  UniqueFd file(::open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600));
  if (file && ::fchmod(file.get(), mode) != 0) file.reset();
  return file;
}

// Gives the file a name of its own beside the target, and then the target's name. Returns 0 or
// errno.
int name(int file, const std::string& target) {
  const std::string source = fmt::format("/proc/self/fd/{}", file);
  std::string aside;
  for (int attempt = 0;; ++attempt) {
    aside = fmt::format("{}/.tally-{}-{}", folder_of(target), ::getpid(), attempt);
    if (::linkat(AT_FDCWD, source.c_str(), AT_FDCWD, aside.c_str(), AT_SYMLINK_FOLLOW) == 0) break;
    if (errno != EEXIST || attempt == kMostAttempts) return errno;
  }
  if (::rename(aside.c_str(), target.c_str()) == 0) return 0;
  const int why = errno;
  ::unlink(aside.c_str());
  return why;
}

}  // namespace

DescriptorBuffer::DescriptorBuffer(UniqueFd file) : file_(std::move(file)) {
  setp(buffer_.data(), buffer_.data() + buffer_.size());
}

std::streambuf::int_type DescriptorBuffer::overflow(int_type c) {
  if (sync() != 0) return traits_type::eof();
  if (!traits_type::eq_int_type(c, traits_type::eof())) sputc(traits_type::to_char_type(c));
  return traits_type::not_eof(c);
}

int DescriptorBuffer::sync() {
  for (const char* at = pbase(); error_ == 0 && at < pptr();) {
    const ssize_t count = ::write(file_.get(), at, static_cast<std::size_t>(pptr() - at));
    if (count < 0 && errno != EINTR) error_ = errno;
    if (count > 0) at += count;
  }
  setp(buffer_.data(), buffer_.data() + buffer_.size());
  return error_ == 0 ? 0 : -1;
}

Result<OutputFile> OutputFile::create(const std::string& path) {
  OutputFile made;
  made.path_ = path;
  struct stat there {};
  const bool exists = ::stat(path.c_str(), &there) == 0;
  if (!exists && errno != ENOENT) return cannot_write(path, errno);
  if (path.empty()) return cannot_write("\"\"", ENOENT);
  if (path.back() == '/' || (exists && S_ISDIR(there.st_mode))) return cannot_write(path, EISDIR);
  if (exists && ::access(path.c_str(), W_OK) != 0) return cannot_write(path, errno);
  UniqueFd file;
  if (exists && !S_ISREG(there.st_mode)) {
    file = UniqueFd(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
    if (!file) return cannot_write(path, errno);
  } else {
    made.target_ = target_of(path);
    const std::string folder = folder_of(made.target_);
    file = open_unnamed(folder, exists ? there.st_mode & 07777 : new_file_mode());
    const int why = errno;
    if (!file && why == ENOENT) return cannot_write(path, why);
    if (!file) {
      return Error{Status::kInvalidArgument,
                   fmt::format("cannot write {}: its folder {} takes no new file: {}", path, folder,
                               std::strerror(why))};
    }
  }
  made.buffer_ = std::make_unique<DescriptorBuffer>(std::move(file));
  made.stream_ = std::make_unique<std::ostream>(made.buffer_.get());
  return made;
}

Outcome OutputFile::commit() {
  stream_->flush();
  if (buffer_->error() != 0) return cannot_write(path_, buffer_->error());
  if (target_.empty()) return Unit{};
  if (::fsync(buffer_->fd()) != 0) return cannot_write(path_, errno);
  if (const int why = name(buffer_->fd(), target_); why != 0) return cannot_write(path_, why);
  // Makes the name durable too. Not every file system can.
  const UniqueFd folder(::open(folder_of(target_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder) static_cast<void>(::fsync(folder.get()));
  return Unit{};
}

Outcome write_file(const std::string& path, std::string_view text) {
  auto file = OutputFile::create(path);
  if (!file) return file.error();
  file->stream() << text;
  return file->commit();
}

}  // namespace tally
