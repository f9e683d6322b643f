#include "rendezvous/store/tcp_store.hpp"

#include <fmt/core.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>
#include <thread>
#include <utility>

#include "rendezvous/net/connect.hpp"
#include "rendezvous/system/machine.hpp"

namespace ddprun {
inline namespace base {

void BlockingStream::close() {
    fd_.reset();
    ahead_begin_ = ahead_end_ = 0;
}

BlockingStream::Outcome BlockingStream::send(std::string_view bytes, Deadline deadline) {
    while (!bytes.empty()) {
        ssize_t count = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (count >= 0) {
            bytes.remove_prefix(static_cast<std::size_t>(count));
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            if (Outcome outcome = await(POLLOUT, deadline); outcome != Outcome::done) return outcome;
        } else if (errno != EINTR) {
            return Outcome::lost;
        }
    }
    return Outcome::done;
}

BlockingStream::Outcome BlockingStream::receive(char* bytes, std::size_t size, Deadline deadline) {
    while (size > 0) {
        std::size_t count = std::min(size, ahead_end_ - ahead_begin_);
        Outcome outcome = Outcome::done;
        if (count > 0) {
            std::memcpy(bytes, ahead_.data() + ahead_begin_, count);
            ahead_begin_ += count;
        } else if (size >= ahead_.size()) {
            outcome = fill(bytes, size, count, deadline);
        } else {
            ahead_begin_ = ahead_end_ = 0;
            outcome = fill(ahead_.data(), ahead_.size(), ahead_end_, deadline);
        }
        if (outcome != Outcome::done) return outcome;
        bytes += count;
        size -= count;
    }
    return Outcome::done;
}

BlockingStream::Outcome BlockingStream::fill(char* bytes, std::size_t size, std::size_t& count,
                                             Deadline deadline) {
    for (;;) {
        if (Outcome outcome = await(POLLIN, deadline); outcome != Outcome::done) return outcome;
        ssize_t received = ::recv(fd_.get(), bytes, size, MSG_DONTWAIT);
        if (received > 0) {
            count = static_cast<std::size_t>(received);
            return Outcome::done;
        }
        if (received == 0) return Outcome::lost;
        if (errno != EINTR && errno != EAGAIN && errno != EWOULDBLOCK) return Outcome::lost;
    }
}

BlockingStream::Outcome BlockingStream::await(short events, Deadline deadline) const {
    for (;;) {
        pollfd event{fd_.get(), events, 0};
        int ready = ::poll(&event, 1, poll_timeout(deadline));
        if (ready > 0) return Outcome::done;
        if (ready < 0 && errno != EINTR) return Outcome::lost;
        if (ready == 0 && has_passed(deadline)) return Outcome::timed_out;
    }
}

namespace {

using Clock = Deadline::clock;
using Milliseconds = Store::Milliseconds;

constexpr Milliseconds kFirstPause{10};
constexpr Milliseconds kLongestPause{1'000};
// A modern server reads a legacy request as noise and may just keep silent.
constexpr Milliseconds kLegacyProbeTimeout{5'000};

// The protocol has no word for it, and what an older server would take for noise closes a connection, too.
constexpr char kTurnedAway[] =
    "it closes the connection, as a job's port does to all but processes of the job's user on the nodes of the job; "
    "if it turned this one away, the launcher of node 0 has said why";

// This is the key of the probe's add. It must be at least 256 bytes long. A legacy server takes validate's
// opcode for its set, and the eight bytes after it (the magic, add's opcode and the low three bytes of the
// key's length) for the length of a key to allocate: length << 40. From 256 on that is beyond the 2^48 bytes
// a process can address, so the allocation fails at once everywhere, whatever the overcommit policy, and the
// server closes the connection.
std::string probe_key() {
    std::string key = "/ddprun/probe/";
    key.resize(300, '.');
    return key;
}

std::string in_quotes(const std::vector<std::string>& keys) {
    constexpr std::size_t kShown = 8;
    std::string text;
    for (std::size_t i = 0; i < std::min(keys.size(), kShown); ++i)
        text += fmt::format("{}\"{}\"", i == 0 ? "" : ", ", keys[i]);
    if (keys.size() > kShown) text += fmt::format(" and {} more", keys.size() - kShown);
    return text;
}

}  // namespace

TcpStore::TcpStore(Endpoint endpoint, Milliseconds connect_timeout,
                   const std::function<void(const std::string& cause)>& while_waiting)
    : endpoint_(std::move(endpoint)), connect_timeout_(connect_timeout) {
    connect(while_waiting);
}

void TcpStore::connect(const std::function<void(const std::string& cause)>& while_waiting) {
    const auto start = Clock::now();
    const Deadline deadline = start + connect_timeout_;
    auto next_notice = start + kFirstNotice;
    std::minstd_rand random(random_number<std::uint32_t>("pauses"));
    Milliseconds pause = kFirstPause;
    // The last thing that was learned: an attempt that merely ran out of time teaches nothing new.
    Errc code = Errc::timed_out;
    std::string cause = "it does not answer";
    for (;;) {
        try {
            // A connection that breaks in the modern dialect is a legacy server's answer, or an accident; a
            // dialect is believed only when it was answered in.
            for (Dialect dialect : {Dialect::modern, Dialect::legacy}) {
                if (dialect_ && *dialect_ != dialect) continue;
                Outcome outcome = try_dialect(dialect, deadline);
                if (outcome == Outcome::done) {
                    dialect_ = dialect;
                    return;
                }
                if (outcome == Outcome::timed_out) break;
                code = Errc::unreachable;
                cause = kTurnedAway;
            }
        } catch (const boost::system::system_error& error) {
            if (error.code() == Errc::protocol_violation) throw;
            const bool learned = error.code() != Errc::timed_out;
            if (learned) code = Errc::unreachable;
            if (learned || code == Errc::timed_out) cause = error.what();
        }
        stream_.close();
        if (has_passed(deadline)) {
            fail(code, fmt::format("no store at {} within {} ms: {}", to_string(endpoint_),
                                   connect_timeout_.count(), cause));
        }
        if (const auto now = Clock::now(); while_waiting && now >= next_notice) {
            while_waiting(cause);
            next_notice = start + 2 * (now - start);
        }
        // No event tells that a store begins to listen. Half to one and a half of the pause, so that a
        // thousand clients do not come back all at once.
        std::uniform_int_distribution<Milliseconds::rep> jitter(pause.count() / 2, pause.count() * 3 / 2);
        std::this_thread::sleep_for(std::min(Milliseconds(jitter(random)), time_until(deadline)));
        pause = std::min(pause * 2, kLongestPause);
    }
}

TcpStore::Outcome TcpStore::try_dialect(Dialect dialect, Deadline deadline) {
    stream_ = BlockingStream(connect_tcp(endpoint_, std::max(time_until(deadline), Milliseconds(1))));
    const std::string key = probe_key();
    Request request;
    request_.clear();
    if (dialect == Dialect::modern) {
        request.opcode = Opcode::validate;
        request.number = kValidateMagic;
        encode_request(request_, dialect, request);
    } else {
        deadline = std::min(deadline, Clock::now() + kLegacyProbeTimeout);
    }
    request.key = key;
    request.number = 0;
    for (Opcode opcode : {Opcode::add, Opcode::delete_key}) {
        request.opcode = opcode;
        encode_request(request_, dialect, request);
    }
    std::array<char, 16> reply{};
    Outcome outcome = stream_.send(request_, deadline);
    if (outcome == Outcome::done) outcome = stream_.receive(reply.data(), reply.size(), deadline);
    if (outcome != Outcome::done) return outcome;
    std::int64_t erased = load_i64(reply.data() + 8);
    if (load_i64(reply.data()) != 0 || erased < 0 || erased > 1) {
        fail(Errc::protocol_violation, fmt::format("what answers at {} is no store", to_string(endpoint_)));
    }
    return outcome;
}

std::string TcpStore::wire_key(std::string_view key) {
    if (key.size() + 1 > kMaxKeyLength)
        fail(Errc::limit_exceeded, fmt::format("a key of {} bytes is too long for the store", key.size()));
    std::string whole;
    whole.reserve(1 + key.size());
    return whole.append("/").append(key);
}

void TcpStore::give_up(Errc code, std::string_view why) {
    // A late answer would be taken for that to the next request.
    stream_.close();
    lost_ = true;
    fail(code, fmt::format("the store at {} {} during {}", to_string(endpoint_), why, doing_));
}

void TcpStore::must_be_done(Outcome outcome) {
    if (outcome == Outcome::lost) give_up(Errc::connection_lost, "closed the connection");
    if (outcome == Outcome::timed_out)
        give_up(Errc::timed_out, fmt::format("has not answered within {} ms", kReplyTimeout.count()));
}

void TcpStore::send(Request request, std::string doing) {
    const std::string key = wire_key(request.key);
    std::vector<std::string> keys;
    for (std::string_view each : request.keys) keys.push_back(wire_key(each));
    request.key = key;
    request.keys.assign(keys.begin(), keys.end());
    if (lost_)
        fail(Errc::connection_lost,
             fmt::format("the connection to the store at {} is lost", to_string(endpoint_)));
    if (!stream_.is_open()) connect();
    doing_ = std::move(doing);
    request_.clear();
    encode_request(request_, *dialect_, request);
    must_be_done(stream_.send(request_, Clock::now() + kReplyTimeout));
    constexpr std::size_t kKept = std::size_t{1} << 20;
    if (request_.capacity() > kKept) std::string().swap(request_);
}

void TcpStore::receive(char* bytes, std::size_t size) {
    must_be_done(stream_.receive(bytes, size, Clock::now() + kReplyTimeout));
}

std::int64_t TcpStore::receive_number() {
    std::array<char, 8> bytes{};
    receive(bytes.data(), bytes.size());
    return load_i64(bytes.data());
}

char TcpStore::receive_byte() {
    char byte = 0;
    receive(&byte, 1);
    return byte;
}

std::string TcpStore::receive_string() {
    const auto size = static_cast<std::uint64_t>(receive_number());
    if (size > kMaxValueLength) give_up(Errc::protocol_violation, "announced a value that is too long");
    std::string value(static_cast<std::size_t>(size), '\0');
    receive(value.data(), value.size());
    return value;
}

void TcpStore::set(std::string_view key, std::string_view value) {
    if (value.size() > kMaxValueLength) {
        fail(Errc::limit_exceeded,
             fmt::format("the value for \"{}\" is too long for the store: {} bytes", key, value.size()));
    }
    send({.opcode = Opcode::set, .key = key, .value = value}, fmt::format("set of \"{}\"", key));
}

std::string TcpStore::get(std::string_view key, Milliseconds timeout) {
    wait({std::string(key)}, timeout);
    send({.opcode = Opcode::get, .key = key}, fmt::format("get of \"{}\"", key));
    return receive_string();
}

std::int64_t TcpStore::add(std::string_view key, std::int64_t delta) {
    send({.opcode = Opcode::add, .key = key, .number = delta},
         fmt::format("add to \"{}\" (whose value may be no number)", key));
    return receive_number();
}

std::string TcpStore::compare_set(std::string_view key, std::string_view expected, std::string_view desired) {
    if (std::max(expected.size(), desired.size()) > kMaxValueLength)
        fail(Errc::limit_exceeded, fmt::format("a value for \"{}\" is too long for the store", key));
    send({.opcode = Opcode::compare_set, .key = key, .value = expected, .desired = desired},
         fmt::format("compare_set of \"{}\"", key));
    return receive_string();
}

bool TcpStore::erase(std::string_view key) {
    send({.opcode = Opcode::delete_key, .key = key}, fmt::format("erase of \"{}\"", key));
    return receive_number() != 0;
}

bool TcpStore::check_keys(const std::vector<std::string>& keys) {
    send({.opcode = Opcode::check, .keys = {keys.begin(), keys.end()}}, "check of " + in_quotes(keys));
    return receive_byte() == kReadyReply;
}

void TcpStore::wait(const std::vector<std::string>& keys, Milliseconds timeout) {
    const Deadline deadline = Clock::now() + timeout;
    send({.opcode = Opcode::wait, .keys = {keys.begin(), keys.end()}}, "wait for " + in_quotes(keys));
    char reply = kNotReadyReply;
    const Outcome outcome = stream_.receive(&reply, 1, deadline);
    bool ready = outcome == Outcome::done;
    if (outcome == Outcome::lost) must_be_done(outcome);
    if (ready && reply != kReadyReply) give_up(Errc::protocol_violation, "answered with an unknown byte");
    if (outcome == Outcome::timed_out) {
        if (*dialect_ == Dialect::modern) {
            ready = cancel_wait();
        } else {
            // The old server still owes an answer, so the connection cannot be used any more.
            stream_.close();
            ready = check_keys(keys);
        }
    }
    if (!ready) {
        fail(Errc::timed_out, fmt::format("the store at {} got no value for {} within {} ms",
                                          to_string(endpoint_), in_quotes(keys), timeout.count()));
    }
}

// True if the server had answered the wait just before it read this.
bool TcpStore::cancel_wait() {
    send({.opcode = Opcode::cancel_wait}, std::move(doing_));
    char reply = receive_byte();
    const bool ready = reply == kReadyReply;
    if (ready) reply = receive_byte();
    if (reply != kWaitCancelledReply) give_up(Errc::protocol_violation, "answered a cancel wrongly");
    return ready;
}

}  // namespace base
}  // namespace ddprun
