#include "rendezvous/link/port_search.hpp"

#include <fmt/core.h>
#include <boost/asio/post.hpp>

#include <algorithm>
#include <utility>

#include "rendezvous/base/error.hpp"
#include "rendezvous/coordinator/roster.hpp"

namespace ddprun {
inline namespace job {

namespace asio = boost::asio;

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

// The call goes by way of the timer in any case, not from inside the callback of the client that is about to
// be replaced.
void PortSearch::call_next() {
    pause_.expires_after(walk_.pause());
    pause_.async_wait([this](boost::system::error_code cancelled) {
        if (cancelled || has_ended_) return;
        const auto now = CoordinatorClient::TimePoint::clock::now();
        if (now >= options_.deadline)
            return events_.observer.lost({CoordinatorLoss::Kind::unreached, walk_.text()});
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
    if (walk_.has_ended_round()) events_.observer.trouble(walk_.text());
    call_next();
}

void PortSearch::end() {
    has_ended_ = true;
    pause_.cancel();
}

}  // namespace job
}  // namespace ddprun
