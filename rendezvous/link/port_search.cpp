#include "rendezvous/link/port_search.hpp"

#include <fmt/core.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <cstddef>
#include <utility>

#include "rendezvous/coordinator/roster.hpp"
#include "rendezvous/job/digest.hpp"
#include "rendezvous/system/error.hpp"

namespace ddprun::inline job {

std::vector<std::uint16_t> PortWalk::ports() const {
    std::vector<std::uint16_t> ports;
    for (std::size_t i = 0; i < met_.size(); ++i) ports.push_back(static_cast<std::uint16_t>(first_ + i));
    return ports;
}

void PortWalk::pass_nobody(const std::string& cause) {
    met_[next_].clear();
    cause_ = cause;
    pass();
}

void PortWalk::pass_stranger(const std::string& what) {
    met_[next_] = what;
    pass();
}

void PortWalk::pass() {
    next_ = (next_ + 1) % met_.size();
    if (next_ == 0) pause_ = pause_.count() == 0 ? kFirstPause : std::min(2 * pause_, kLongestPause);
}

std::chrono::milliseconds PortWalk::pause() const {
    return has_ended_round() ? pause_ : std::chrono::milliseconds(0);
}

std::string PortWalk::text() const {
    std::string text;
    std::size_t strangers = 0;
    for (std::size_t i = 0; i < met_.size(); ++i) {
        if (met_[i].empty()) continue;
        text += fmt::format("{}port {} {}", strangers++ == 0 ? "" : "; ", first_ + i, met_[i]);
    }
    if (strangers == met_.size()) return text;
    if (strangers > 0)
        return fmt::format("{}; nobody else from {} to {}", text, first_, first_ + met_.size() - 1);
    return fmt::format("{}; nor is the job at any other port from {} to {}", cause_, first_,
                       first_ + met_.size() - 1);
}

bool HostClaim::take(const std::string& run_id) {
    OwnedDescriptor holder(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!holder) fail_errno(errno, "cannot claim to host the rendezvous");
    // A name that begins with a zero byte is in no file system. An id may be longer than such a name.
    Digest id;
    id.add(run_id);
    const std::string name = fmt::format("ddprun-host-{:016x}", id.value());
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::copy(name.begin(), name.end(), address.sun_path + 1);
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    if (::bind(holder.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0) {
        if (errno == EADDRINUSE) return false;
        fail_errno(errno, "cannot claim to host the rendezvous");
    }
    holder_ = std::move(holder);
    return true;
}

PortSearch::PortSearch(const boost::asio::any_io_executor& executor, PortSearchOptions options,
                       PortSearchEvents events)
    : pause_(executor),
      options_(std::move(options)),
      walk_(options_.first.port, options_.ports),
      events_(std::move(events)) {
    options_.hello.seeks_port = true;
}

std::vector<Endpoint> PortSearch::places() const {
    std::vector<Endpoint> places;
    for (const std::uint16_t port : walk_.ports()) places.push_back(at(port));
    return places;
}

void PortSearch::host(const std::function<void(const Endpoint&)>& host,
                      const std::function<void(const std::string&)>& on_step) {
    if (!options_.has_claim_to_host && !claim_.take(options_.hello.run_id)) return;
    for (const Endpoint& here : places()) {
        try {
            return host(here);
        } catch (const boost::system::system_error& error) {
            if (error.code() != Errc::address_in_use) throw;
            if (here == places().back()) fail_all_taken(error.what());
            on_step(error.what());
        }
    }
}

void PortSearch::fail_all_taken(const std::string& last) const {
    const auto ports = walk_.ports();
    const std::string source =
        options_.range ? fmt::format(", those of --port-range {} for this job", to_string(*options_.range))
                       : "";
    fail(Errc::address_in_use,
         fmt::format("none of the ports {} to {} is free{}: {}", ports.front(), ports.back(), source, last));
}

// The call goes by way of the timer in any case, not from inside the callback of the client that is about to be replaced.
void PortSearch::call_next() {
    pause_.expires_after(walk_.pause());
    pause_.async_wait([this](boost::system::error_code cancelled) {
        if (cancelled || has_ended_) return;
        const auto now = CoordinatorClient::TimePoint::clock::now();
        if (now >= options_.deadline)
            return events_.client.on_lost({CoordinatorLoss::Kind::unreached, walk_.text()});
        is_heard_ = is_passed_ = false;
        events_.call({.coordinator = place(),
                      .hello = options_.hello,
                      .join_deadline = std::min(options_.deadline, now + kCallTimeout),
                      .answer_timeout = Roster::kFirstStatusDelay + kAnswerTime});
    });
}

bool PortSearch::takes_trouble(const std::string& cause) {
    if (is_heard_) return false;
    if (is_passed_) return true;
    walk_.pass_nobody(cause);
    pass();
    return true;
}

bool PortSearch::takes(const CoordinatorLoss& loss) {
    if (loss.kind == CoordinatorLoss::Kind::unreached) return takes_trouble(loss.cause);
    if (is_heard_) return false;
    if (is_passed_) return true;
    walk_.pass_stranger("is another program's: " + loss.cause);
    pass();
    return true;
}

bool PortSearch::takes(const ControlMessage& message) {
    const auto* refused = std::get_if<Refused>(&message);
    is_heard_ = refused == nullptr || refused->other_job.empty();
    if (is_heard_) return false;
    walk_.pass_stranger(refused->other_job);
    pass();
    return true;
}

// The client would try again by itself, and might be let in where it is to call no more.
void PortSearch::pass() {
    is_passed_ = true;
    boost::asio::post(pause_.get_executor(), [this, life = std::weak_ptr(life_)] {
        if (!life.expired() && is_passed_) events_.drop();
    });
    if (walk_.has_ended_round()) events_.client.on_trouble(walk_.text());
    call_next();
}

void PortSearch::end() {
    has_ended_ = true;
    pause_.cancel();
}

}  // namespace ddprun::inline job
