// TcpStore: the Store of a StoreService, or of PyTorch's own server (any version), over one connection.
//
// Blocking, for one thread at a time; owned by its user. Keys go out with PyTorch's leading "/", so that
// PyTorch's clients and this one see the same keys. The dialect is found out when connecting: the modern one
// is tried with an add of 0, and a server that closes the connection on that is asked again in the legacy
// one.
//
// Besides what store.hpp says: add on a value that is no number shows as connection_lost, because closing is
// the only error reply the protocol has. After connection_lost every verb fails at once; make a new TcpStore.
// A timed-out get or wait leaves the store usable.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/net/blocking_stream.hpp"
#include "rendezvous/net/endpoint.hpp"
#include "rendezvous/store/store.hpp"
#include "rendezvous/store/wire.hpp"
#include "rendezvous/system/error.hpp"

namespace ddprun::inline base {

class TcpStore final : public Store {
  public:
    // How long a server that is there may take to answer a request that does not wait for others.
    static constexpr Milliseconds kReplyTimeout{60'000};

    // Connects, again and again with jittered pauses until the store answers or `connect_timeout` is over.
    // Throws Errc::unreachable or timed_out with the last attempt's cause, or protocol_violation if something
    // else than a store answers there.
    // `while_waiting` hears the last attempt's cause after kFirstNotice, then each time as much has passed
    // again.
    TcpStore(Endpoint endpoint, Milliseconds connect_timeout,
             const std::function<void(const std::string& cause)>& while_waiting = {});

    // So long a store that is about to begin may take.
    static constexpr Milliseconds kFirstNotice{5'000};

    void set(std::string_view key, std::string_view value) override;
    std::string get(std::string_view key, Milliseconds timeout) override;
    std::int64_t add(std::string_view key, std::int64_t delta) override;
    std::string compare_set(std::string_view key, std::string_view expected,
                            std::string_view desired) override;
    void wait(const std::vector<std::string>& keys, Milliseconds timeout) override;
    bool check_keys(const std::vector<std::string>& keys) override;
    bool erase(std::string_view key) override;

    // What the server speaks.
    Dialect dialect() const { return *dialect_; }

  private:
    using Outcome = BlockingStream::Outcome;

    void connect(const std::function<void(const std::string& cause)>& while_waiting = {});
    Outcome try_dialect(Dialect dialect, Deadline deadline);

    static std::string wire_key(std::string_view key);
    // The keys of the request are the caller's; `doing` is what an error calls it.
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

}  // namespace ddprun::inline base
