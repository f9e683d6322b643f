#include "rendezvous/control/control_channel.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <new>
#include <optional>
#include <vector>

#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

namespace asio = boost::asio;

// One end, and what was heard there.
struct LocalSpeaker {
    explicit LocalSpeaker(std::shared_ptr<ControlChannel> one) : channel(std::move(one)) {}

    void listen(asio::io_context& context) {
        asio::co_spawn(context, channel->run([this](const ControlMessage& message) {
            heard.push_back(std::get<Heartbeat>(message).number);
        }),
                       [this](const std::exception_ptr& error, bool closed_there) {
                           REQUIRE_FALSE(error);
                           end = closed_there;
                       });
    }

    std::shared_ptr<ControlChannel> channel;
    std::vector<std::uint64_t> heard;
    std::optional<bool> end;  // nothing while the conversation goes on
};

Heartbeat numbered(std::uint64_t number) {
    Heartbeat message;
    message.number = number;
    return message;
}

}  // namespace

TEST_CASE(
    "both ends of a local conversation hear everything in order, also what was said before they listened") {
    asio::io_context one, other;
    auto ends = make_local_channel(one.get_executor(), other.get_executor());
    LocalSpeaker first(ends.first), second(ends.second);
    first.channel->send(numbered(1), false);
    first.channel->send(numbered(2), false);
    second.listen(other);
    other.run_for(std::chrono::milliseconds(1));
    second.channel->send(numbered(7), false);
    first.listen(one);
    one.poll();
    CHECK(second.heard == std::vector<std::uint64_t>{1, 2});
    CHECK(first.heard == std::vector<std::uint64_t>{7});
    CHECK_FALSE(first.end.has_value());
    CHECK(first.channel->all_arrived());
}

TEST_CASE("the last message of a local conversation is heard before its end, and nothing after it") {
    asio::io_context one, other;
    auto ends = make_local_channel(one.get_executor(), other.get_executor());
    LocalSpeaker first(ends.first), second(ends.second);
    first.listen(one);
    second.listen(other);
    first.channel->send(numbered(1), true);
    first.channel->send(numbered(2), false);
    other.poll();
    CHECK(second.heard == std::vector<std::uint64_t>{1});
    CHECK(second.end == true);
    one.poll();
    CHECK(first.end == true);
}

// Else a rank's failure that comes by the network would overtake the signal to the host's own agent which it
// is due to.
TEST_CASE("nothing that arrives later is handled before a local message") {
    asio::io_context one, other;
    auto ends = make_local_channel(one.get_executor(), other.get_executor());
    LocalSpeaker second(ends.second);
    second.listen(other);
    other.poll();
    std::size_t heard_before = 0;
    ends.first->send(numbered(1), false);
    asio::post(other, [&] { heard_before = second.heard.size(); });
    other.poll();
    CHECK(heard_before == 1);
}

TEST_CASE("what the listener of a local conversation throws ends the conversation") {
    asio::io_context one, other;
    auto ends = make_local_channel(one.get_executor(), other.get_executor());
    LocalSpeaker first(ends.first);
    first.listen(one);
    bool threw = false;
    asio::co_spawn(other, ends.second->run([](const ControlMessage&) { throw std::bad_alloc(); }),
                   [&threw](const std::exception_ptr& error, bool) { threw = error != nullptr; });
    first.channel->send(numbered(1), false);
    other.poll();
    one.poll();
    CHECK(threw);
    CHECK(first.end == true);
}

TEST_CASE("an end of a local conversation may be used when the other one and its thread are gone") {
    asio::io_context one;
    auto other = std::make_unique<asio::io_context>();
    auto ends = make_local_channel(one.get_executor(), other->get_executor());
    LocalSpeaker first(ends.first);
    first.listen(one);
    ends.second->close();
    ends.second.reset();
    other.reset();
    first.channel->send(numbered(1), false);
    one.poll();
    CHECK(first.end == true);
    first.channel->send(numbered(2), false);
    first.channel->close();
}

}  // namespace ddprun
