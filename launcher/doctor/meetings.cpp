#include "launcher/doctor/meetings.hpp"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <exception>
#include <utility>

#include "rendezvous/net/endpoint.hpp"
#include "rendezvous/net/socket.hpp"
#include "rendezvous/system/deadline.hpp"

namespace ddprun::inline launch {

namespace asio = boost::asio;
using asio::ip::tcp;
using namespace asio::experimental::awaitable_operators;

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kPings = 4;

std::int64_t wall_clock_us() {
    return std::chrono::duration_cast<std::chrono::microseconds>(
               std::chrono::system_clock::now().time_since_epoch())
        .count();
}

Reach reach_of(const boost::system::error_code& error) {
    if (error == asio::error::connection_refused) return Reach::refused;
    return error == asio::error::timed_out ? Reach::silent : Reach::unreachable;
}

// Until somebody cancels the timer's wait, or that time.
asio::awaitable<void> await_word(asio::steady_timer& timer, Deadline deadline) {
    boost::system::error_code cancelled;
    timer.expires_at(deadline);
    co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, cancelled));
}

// The latency, and by the quickest answer the other clock.
asio::awaitable<void> ping(tcp::socket& socket, Deadline deadline, PairReach& result) {
    for (int i = 0; i < kPings; ++i) {
        const auto wall = wall_clock_us();
        const auto start = Clock::now();
        if (!co_await send_all(socket, {&kPing, 1}, deadline)) co_return;
        const auto there = co_await receive_number(socket, deadline);
        if (!there) co_return;
        const auto took = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - start).count();
        if (result.latency_us && *result.latency_us <= took) continue;
        result.latency_us = took;
        result.clock_offset_us = *there - (wall + took / 2);
    }
}

}  // namespace

struct Meetings::Round {
    Round(const asio::any_io_executor& executor, int number_, MeetingLimits limits_)
        : number(number_), limits(limits_), caller_news(executor), turn(executor) {}

    void caller_greeted() { has_greeted = true; }
    void caller_left() {
        has_left = true;
        caller_news.cancel();
        turn.cancel();
    }

    int number;
    MeetingLimits limits;
    std::optional<int> partner;  // nothing: anybody may call
    Deadline start = Clock::now();
    Deadline handshake_end = start + limits.handshake;
    Deadline end = start + limits.round;
    bool has_greeted = false;  // the partner, as a caller
    bool has_left = false;
    asio::steady_timer caller_news;  // for who waits for the caller to leave …
    asio::steady_timer turn;         // … and for who is to measure after that
};

Meetings::Meetings() : acceptor_(listen_tcp(context_.get_executor(), ListenScope::any, 0)) {
    asio::co_spawn(context_,
                   accept_each(acceptor_,
                               [this](tcp::socket socket) {
                                   if (callers_ < kMaxCallers)
                                       asio::co_spawn(context_, serve(std::move(socket)), asio::detached);
                               }),
                   asio::detached);
}

Meetings::~Meetings() = default;

void Meetings::begin(std::string token, int rank) {
    token_ = std::move(token);
    rank_ = rank;
}

asio::awaitable<void> Meetings::serve(tcp::socket socket) {
    ++callers_;
    const std::shared_ptr<Round> round = round_;
    std::array<char, kGreetingSize> bytes{};
    const bool is_whole = round && co_await receive_all(socket, bytes, round->end);
    const auto greeting = is_whole ? parse_greeting({bytes.data(), bytes.size()}) : std::nullopt;
    const bool is_expected = greeting && greeting->token == token_ && greeting->round == round->number &&
                             (!round->partner || greeting->from == *round->partner);
    if (is_expected) {
        round->caller_greeted();
        if (co_await send_all(socket, {&kWelcome, 1}, round->end)) co_await answer(socket, round);
        round->caller_left();
    }
    --callers_;
}

asio::awaitable<void> Meetings::answer(tcp::socket& socket, std::shared_ptr<Round> round) {
    for (;;) {
        char asked = kBye;
        if (!co_await receive_all(socket, {&asked, 1}, round->end)) co_return;
        if (asked == kTransfer) break;
        if (asked != kPing || !co_await send_number(socket, wall_clock_us(), round->end)) co_return;
    }
    const auto rate = co_await receive_data(socket, round->limits.transfer);
    if (co_await send_number(socket, rate, round->end)) co_await send_data(socket, round->limits.transfer);
}

asio::awaitable<void> Meetings::call(std::shared_ptr<Round> round, MeetingNode target, bool measures,
                                     PairReach& result) {
    result.from = rank_;
    result.to = target.rank;
    const auto port = static_cast<std::uint16_t>(target.port);
    result.address = to_string(Endpoint{target.address, port});
    boost::system::error_code bad_address;
    const auto address = asio::ip::make_address(target.address, bad_address);
    if (bad_address) {
        result.reach = Reach::unreachable;
        result.error = "no address";
        co_return;
    }
    asio::steady_timer timer(context_, round->handshake_end);
    std::vector<tcp::endpoint> addresses(1, tcp::endpoint(address, port));
    auto first = co_await (race_to_connect(std::move(addresses)) || timer.async_wait(asio::use_awaitable));
    if (first.index() == 1) co_return;  // The result says already that it is silent.
    RaceResult race = std::move(std::get<0>(first));
    if (!race.socket) {
        result.reach = reach_of(race.error);
        result.error = race.error.message();
        co_return;
    }
    result.reach = Reach::no_answer;
    co_await talk(*race.socket, round, measures, result);
}

asio::awaitable<void> Meetings::talk(tcp::socket& socket, std::shared_ptr<Round> round, bool measures,
                                     PairReach& result) {
    boost::system::error_code ignored;
    socket.set_option(tcp::no_delay(true), ignored);
    char word = 0;
    const std::string greeting = bytes_of({token_, rank_, round->number});
    if (!co_await send_all(socket, greeting, round->handshake_end) ||
        !co_await receive_all(socket, {&word, 1}, round->handshake_end) || word != kWelcome)
        co_return;
    result.reach = Reach::reached;
    co_await ping(socket, round->end, result);
    if (!measures) {
        co_await send_all(socket, {&kBye, 1}, round->end);
        co_return;
    }
    // What the other side measures by its own call is not to be disturbed.
    while (!round->has_left && !has_passed(round->handshake_end))
        co_await await_word(round->turn, round->handshake_end);
    if (!co_await send_all(socket, {&kTransfer, 1}, round->end)) co_return;
    co_await send_data(socket, round->limits.transfer);
    result.sent_mbit_s = co_await receive_number(socket, round->end);
    if (result.sent_mbit_s) result.received_mbit_s = co_await receive_data(socket, round->limits.transfer);
}

asio::awaitable<void> Meetings::play(std::shared_ptr<Round> round, MeetingNode partner, PairReach& result) {
    co_await call(round, partner, rank_ < partner.rank, result);
    while (!round->has_left) {
        const Deadline until = round->has_greeted ? round->end : round->handshake_end;
        if (has_passed(until)) break;
        co_await await_word(round->caller_news, until);
    }
}

// All of the time, since nobody knows who has yet to call.
asio::awaitable<void> Meetings::be_called(std::shared_ptr<Round> round) {
    asio::steady_timer end(context_, round->end);
    co_await end.async_wait(asio::use_awaitable);
}

void Meetings::run(asio::awaitable<void> part) {
    std::exception_ptr failed;
    asio::co_spawn(context_, std::move(part), [this, &failed](std::exception_ptr error) {
        failed = std::move(error);
        context_.stop();
    });
    context_.restart();
    context_.run();
    if (failed) std::rethrow_exception(failed);
}

PairReach Meetings::meet(int round, const MeetingNode& partner, const MeetingLimits& limits) {
    round_ = std::make_shared<Round>(context_.get_executor(), round, limits);
    round_->partner = partner.rank;
    PairReach result;
    run(play(round_, partner, result));
    return result;
}

std::vector<PairReach> Meetings::look_again(int round, const std::vector<MeetingNode>& targets,
                                            std::chrono::milliseconds limit) {
    round_ = std::make_shared<Round>(context_.get_executor(), round, MeetingLimits{limit, {}, limit});
    std::vector<PairReach> results(std::min(targets.size(), kMaxCalledAgain));
    std::size_t calling = results.size();
    for (std::size_t i = 0; i < results.size(); ++i)
        asio::co_spawn(context_, call(round_, targets[i], false, results[i]),
                       [&calling](const std::exception_ptr&) { --calling; });
    run(be_called(round_));
    // Each of them ends by then, too.
    context_.restart();
    while (calling > 0 && context_.run_one() > 0) {
    }
    return results;
}

}  // namespace ddprun::inline launch
