// TcpStore is a client of a StoreService, or of PyTorch's own server (any version), over one connection.
//
// Blocking, for one thread at a time; owned by its user. Keys are sent with PyTorch's leading "/", so that
// PyTorch's clients and this one see the same keys. The dialect is found out when connecting: the modern one
// is tried with an add of 0; if the server closes the connection on that, the legacy dialect is tried.
//
// Besides what store.hpp says: add on a value that is no number fails with connection_lost, because closing
// is the only error reply of the protocol. After connection_lost every function fails at once; make a new
// TcpStore. A timed-out get or wait leaves the store usable.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/base/deadline.hpp"
#include "rendezvous/base/error.hpp"
#include "rendezvous/net/endpoint.hpp"
#include "rendezvous/store/store.hpp"
#include "rendezvous/store/wire.hpp"
#include "rendezvous/system/owned_descriptor.hpp"

namespace ddprun {
inline namespace base {

// BlockingStream is one connected socket for a client that blocks, each time until a deadline at most. Used
// by one thread at a time. Interrupted calls go on; a broken connection never raises SIGPIPE. Every call
// reports its outcome and throws nothing: the owner knows what the outcome means.
class BlockingStream {
  public:
    enum class Outcome { done, timed_out, lost };

    BlockingStream() = default;
    // Takes the descriptor over.
    explicit BlockingStream(int fd) : fd_(fd) {}

    bool is_open() const { return static_cast<bool>(fd_); }
    void close();

    // Sends everything. After any outcome but `done` the stream is unusable.
    Outcome send(std::string_view bytes, Deadline deadline);
    // Receives exactly `size` bytes. After `timed_out` the stream stays usable if none of the bytes had come,
    // as is always so for a single byte.
    Outcome receive(char* bytes, std::size_t size, Deadline deadline);

  private:
    Outcome await(short events, Deadline deadline) const;
    Outcome fill(char* bytes, std::size_t size, std::size_t& count, Deadline deadline);

    OwnedDescriptor fd_;
    // ahead_: bytes received ahead. Most replies come whole, but are taken in pieces.
    std::array<char, 4096> ahead_{};
    std::size_t ahead_begin_ = 0;
    std::size_t ahead_end_ = 0;
};

class TcpStore final : public Store {
  public:
    // kReplyTimeout: how long a server may take to answer a request that does not wait for other clients.
    static constexpr Milliseconds kReplyTimeout{60'000};

    // Connects, again and again with jittered pauses, until the store answers or `connect_timeout` is over.
    // Throws Errc::unreachable or timed_out with the last attempt's cause, or protocol_violation if something
    // else than a store answers. `while_waiting` is called with the last attempt's cause after kFirstNotice,
    // and again each time that much has passed.
    TcpStore(Endpoint endpoint, Milliseconds connect_timeout,
             const std::function<void(const std::string& cause)>& while_waiting = {});

    // kFirstNotice: how long a store may take to begin without a notice.
    static constexpr Milliseconds kFirstNotice{5'000};

    void set(std::string_view key, std::string_view value) override;
    std::string get(std::string_view key, Milliseconds timeout) override;
    std::int64_t add(std::string_view key, std::int64_t delta) override;
    std::string compare_set(std::string_view key, std::string_view expected,
                            std::string_view desired) override;
    void wait(const std::vector<std::string>& keys, Milliseconds timeout) override;
    bool check_keys(const std::vector<std::string>& keys) override;
    bool erase(std::string_view key) override;

    Dialect dialect() const { return *dialect_; }

  private:
    using Outcome = BlockingStream::Outcome;

    void connect(const std::function<void(const std::string& cause)>& while_waiting = {});
    Outcome try_dialect(Dialect dialect, Deadline deadline);

    static std::string wire_key(std::string_view key);
    // Sends the request with the caller's keys; `doing` is what an error calls the request.
    void send(Request request, std::string doing);
    void receive(char* bytes, std::size_t size);
    std::int64_t receive_number();
    std::string receive_string();
    char receive_byte();
    bool cancel_wait();
    void must_be_done(Outcome outcome);
    [[noreturn]] void give_up(Errc code, std::string_view why);

    Endpoint endpoint_;
    Milliseconds connect_timeout_;
    BlockingStream stream_;
    std::optional<Dialect> dialect_;
    bool lost_ = false;
    std::string doing_;    // the request that is under way
    std::string request_;  // scratch, kept for its capacity
};

}  // namespace base
}  // namespace ddprun
