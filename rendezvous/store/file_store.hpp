// FileStore is a Store in one file that several processes, also on several hosts, can reach (file://path).
//
// The file is a log: every change is appended as one record, under an exclusive lock on the file; readers
// replay the records that they have not seen yet, under a shared lock. A record torn by a writer's death is
// recognised by its length or checksum, ignored by readers, and cut off by the next writer. Nothing removes
// the file: give each job a fresh path.
//
//   record = u32 magic, u32 CRC-32 of the rest, u8 kind (0 set, 1 erase), u32 key length, u32 value length,
//            key, value; integers little-endian
//
// While it waits, a FileStore learns by inotify at once of what a process of this host writes. A write by
// another host on a network file system raises no event here, so the file is also read every kRecheckPeriod.
//
// Blocking, for one thread at a time; owned by its user. Throws as store.hpp says, with the path in the
// message, and the file system's errno errors.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/store/store.hpp"
#include "rendezvous/system/owned_descriptor.hpp"

namespace ddprun {
inline namespace base {

class FileStore final : public Store {
  public:
    static constexpr Milliseconds kRecheckPeriod{100};
    // kLockTimeout: how long a lock is waited for, which is held for one read or write. A holder that is
    // stopped or hangs in its file system is reported.
    static constexpr Milliseconds kLockTimeout{30'000};
    static constexpr std::size_t kMaxKeyLength = std::size_t{64} << 10;
    static constexpr std::size_t kMaxValueLength = std::size_t{64} << 20;

    // Opens the file, or makes it (with mode 0600).
    explicit FileStore(std::string path);

    void set(std::string_view key, std::string_view value) override;
    std::string get(std::string_view key, Milliseconds timeout) override;
    std::int64_t add(std::string_view key, std::int64_t delta) override;
    std::string compare_set(std::string_view key, std::string_view expected,
                            std::string_view desired) override;
    void wait(const std::vector<std::string>& keys, Milliseconds timeout) override;
    bool check_keys(const std::vector<std::string>& keys) override;
    bool erase(std::string_view key) override;

  private:
    class Lock;
    enum class Kind : std::uint8_t { set = 0, erase = 1 };

    void replay();
    // Removes one record from the front of `bytes`, and applies it; false if the record is incomplete or
    // torn.
    bool replay_record(std::string_view& bytes);
    void append(Kind kind, std::string_view key, std::string_view value);
    [[noreturn]] void fail_missing(const std::vector<std::string>& keys, Milliseconds timeout) const;
    void watch_file();
    void await_change(Milliseconds longest);
    [[noreturn]] void fail_file(std::string_view doing) const;

    std::string path_;
    OwnedDescriptor file_;
    OwnedDescriptor changes_;   // inotify, from the first wait on
    std::uint64_t offset_ = 0;  // after the last whole record replayed
    std::map<std::string, std::string, std::less<>> values_;
};

}  // namespace base
}  // namespace ddprun
