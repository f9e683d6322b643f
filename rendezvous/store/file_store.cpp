#include "rendezvous/store/file_store.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/crc.hpp>
#include <cerrno>
#include <thread>
#include <utility>

#include "rendezvous/base/deadline.hpp"
#include "rendezvous/base/error.hpp"
#include "rendezvous/store/wire.hpp"
#include "rendezvous/system/small_file.hpp"
#include "rendezvous/text/number_text.hpp"

namespace ddprun {
inline namespace base {
namespace {

constexpr std::uint32_t kMagic = 0x53464444;  // "DDFS" in the file
constexpr std::size_t kHeaderLength = 17;
constexpr std::size_t kChecked = 8;  // the checksum covers what follows it
constexpr std::size_t kReadChunk = std::size_t{1} << 20;

std::uint32_t checksum(std::string_view bytes) {
    boost::crc_32_type crc;
    crc.process_bytes(bytes.data(), bytes.size());
    return crc.checksum();
}

}  // namespace

// Lock holds the lock on the whole file, for a scope. The kernel drops it when its holder dies.
class FileStore::Lock {
  public:
    Lock(const FileStore& store, int operation) : fd_(store.file_.get()) {
        // flock has no form with a time limit and a lock's release raises no event: try again with growing
        // pauses.
        constexpr Milliseconds kLongestPause{20};
        const Deadline deadline = Deadline::clock::now() + kLockTimeout;
        for (Milliseconds pause{1}; ::flock(fd_, operation | LOCK_NB) != 0;
             pause = std::min(pause * 2, kLongestPause)) {
            if (errno != EWOULDBLOCK && errno != EINTR) store.fail_file("lock");
            if (has_passed(deadline)) {
                fail(Errc::timed_out,
                     fmt::format("the lock on {} is held by another process for more than {} ms", store.path_,
                                 kLockTimeout.count()));
            }
            std::this_thread::sleep_for(pause);
        }
    }
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;
    ~Lock() { ::flock(fd_, LOCK_UN); }

  private:
    int fd_;
};

FileStore::FileStore(std::string path) : path_(std::move(path)) {
    auto file = open_own_file(path_, O_RDWR | O_CREAT, 0600);
    if (!file) errno = file.error().value(), fail_file("open");
    file_ = *std::move(file);
}

void FileStore::fail_file(std::string_view doing) const {
    fail_errno(errno, fmt::format("cannot {} the store's file {}", doing, path_));
}

void FileStore::set(std::string_view key, std::string_view value) {
    Lock lock(*this, LOCK_EX);
    replay();
    append(Kind::set, key, value);
}

std::string FileStore::get(std::string_view key, Milliseconds timeout) {
    wait({std::string(key)}, timeout);
    return values_.find(key)->second;
}

std::int64_t FileStore::add(std::string_view key, std::int64_t delta) {
    Lock lock(*this, LOCK_EX);
    replay();
    std::int64_t held = 0;
    if (auto found = values_.find(key); found != values_.end()) {
        auto number = parse_number(found->second);
        if (!number)
            fail(Errc::malformed, fmt::format("add to \"{}\" in {}: its value is no number", key, path_));
        held = *number;
    }
    std::int64_t sum = wrapping_sum(held, delta);
    append(Kind::set, key, std::to_string(sum));
    return sum;
}

std::string FileStore::compare_set(std::string_view key, std::string_view expected,
                                   std::string_view desired) {
    Lock lock(*this, LOCK_EX);
    replay();
    const auto found = values_.find(key);
    const std::string held = found == values_.end() ? "" : found->second;
    if (held != expected) return found == values_.end() ? std::string(expected) : held;
    append(Kind::set, key, desired);
    return std::string(desired);
}

void FileStore::wait(const std::vector<std::string>& keys, Milliseconds timeout) {
    const Deadline deadline = Deadline::clock::now() + timeout;
    while (!check_keys(keys)) {
        if (has_passed(deadline)) fail_missing(keys, timeout);
        // After the first time, an event that comes between a check and the next wait ends that wait at once.
        if (!changes_) {
            watch_file();
            if (check_keys(keys)) return;
        }
        await_change(std::min(time_until(deadline), kRecheckPeriod));
    }
}

void FileStore::fail_missing(const std::vector<std::string>& keys, Milliseconds timeout) const {
    std::string names;
    for (const std::string& key : keys) {
        if (!values_.contains(key)) names += fmt::format("{}\"{}\"", names.empty() ? "" : ", ", key);
    }
    fail(Errc::timed_out, fmt::format("no value for {} in {} within {} ms", names, path_, timeout.count()));
}

bool FileStore::check_keys(const std::vector<std::string>& keys) {
    Lock lock(*this, LOCK_SH);
    replay();
    return std::all_of(keys.begin(), keys.end(),
                       [this](const std::string& key) { return values_.contains(key); });
}

bool FileStore::erase(std::string_view key) {
    Lock lock(*this, LOCK_EX);
    replay();
    if (!values_.contains(key)) return false;
    append(Kind::erase, key, {});
    return true;
}

void FileStore::replay() {
    struct stat status {};
    if (::fstat(file_.get(), &status) != 0) fail_file("read");
    auto size = static_cast<std::uint64_t>(status.st_size);
    std::string bytes;
    std::uint64_t read_to = offset_;
    while (read_to < size) {
        std::size_t held = bytes.size();
        bytes.resize(held + static_cast<std::size_t>(std::min<std::uint64_t>(size - read_to, kReadChunk)));
        ssize_t count =
            ::pread(file_.get(), bytes.data() + held, bytes.size() - held, static_cast<off_t>(read_to));
        if (count < 0 && errno != EINTR) fail_file("read");
        bytes.resize(held + static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
        if (count == 0) break;
        read_to += static_cast<std::uint64_t>(std::max<ssize_t>(count, 0));
        std::string_view rest = bytes;
        while (replay_record(rest)) {
        }
        bytes.erase(0, bytes.size() - rest.size());
    }
    // A torn first record still begins as one of ours does; anything else is somebody's file, not to be cut.
    if (offset_ == 0 && bytes.size() >= 4 && load_u32(bytes.data()) != kMagic) {
        fail(Errc::malformed, path_ + " is not a file of this store");
    }
}

bool FileStore::replay_record(std::string_view& bytes) {
    if (bytes.size() < kHeaderLength || load_u32(bytes.data()) != kMagic) return false;
    auto kind = static_cast<Kind>(bytes[8]);
    std::size_t key_length = load_u32(bytes.data() + 9);
    std::size_t value_length = load_u32(bytes.data() + 13);
    if (key_length > kMaxKeyLength || value_length > kMaxValueLength) return false;
    std::size_t length = kHeaderLength + key_length + value_length;
    if (bytes.size() < length) return false;
    if (load_u32(bytes.data() + 4) != checksum(bytes.substr(kChecked, length - kChecked))) return false;
    std::string key(bytes.substr(kHeaderLength, key_length));
    if (kind == Kind::set) {
        values_.insert_or_assign(std::move(key),
                                 std::string(bytes.substr(kHeaderLength + key_length, value_length)));
    } else {
        values_.erase(key);
    }
    bytes.remove_prefix(length);
    offset_ += length;
    return true;
}

// It is called under the exclusive lock, after replay(): whatever lies beyond offset_ is a dead writer's torn
// record.
void FileStore::append(Kind kind, std::string_view key, std::string_view value) {
    if (key.size() > kMaxKeyLength || value.size() > kMaxValueLength) {
        fail(Errc::limit_exceeded,
             fmt::format("a key of {} bytes with a value of {} bytes is too long for {}", key.size(),
                         value.size(), path_));
    }
    std::string body;
    body.push_back(static_cast<char>(kind));
    put_u32(body, static_cast<std::uint32_t>(key.size()));
    put_u32(body, static_cast<std::uint32_t>(value.size()));
    body.append(key).append(value);
    std::string record;
    put_u32(record, kMagic);
    put_u32(record, checksum(body));
    record.append(body);

    if (::ftruncate(file_.get(), static_cast<off_t>(offset_)) != 0) fail_file("repair");
    std::size_t written = 0;
    while (written < record.size()) {
        ssize_t count = ::pwrite(file_.get(), record.data() + written, record.size() - written,
                                 static_cast<off_t>(offset_ + written));
        if (count >= 0) {
            written += static_cast<std::size_t>(count);
        } else if (errno != EINTR) {
            int cause = errno;
            // This is best effort: what is left of the record would be recognised as torn anyhow.
            if (::ftruncate(file_.get(), static_cast<off_t>(offset_)) != 0) written = 0;
            errno = cause;
            fail_file("write");
        }
    }
    std::string_view rest = record;
    replay_record(rest);
}

void FileStore::watch_file() {
    changes_.reset(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
    // The periodic look has to do where there is no watch (the user's inotify limit).
    if (changes_) ::inotify_add_watch(changes_.get(), path_.c_str(), IN_MODIFY);
}

void FileStore::await_change(Milliseconds longest) {
    pollfd event{changes_.get(), POLLIN, 0};
    if (::poll(&event, 1, static_cast<int>(longest.count())) <= 0) return;
    std::array<char, 4096> events;
    while (::read(changes_.get(), events.data(), events.size()) > 0) {
    }
}

}  // namespace base
}  // namespace ddprun
