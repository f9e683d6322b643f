// What a control connection does with more than its peer takes.
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>

#include "rendezvous/control/control_channel.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

using boost::asio::ip::tcp;

constexpr std::size_t kMaxPending = 8 * 1024;

// Returns what the other end reads of what was sent before anything was written.
std::vector<ControlMessage> read_of(const std::vector<ControlMessage>& sent) {
    boost::asio::io_context context{1};
    tcp::acceptor acceptor(context, {boost::asio::ip::address_v4::loopback(), 0});
    tcp::socket peer(context);
    peer.connect(acceptor.local_endpoint());
    const auto session = std::make_shared<ControlSession>(acceptor.accept(), kMaxPending);
    for (const ControlMessage& message : sent) session->send(message, &message == &sent.back());
    boost::asio::co_spawn(
        context, [session] { return session->run([](const ControlMessage&) {}); }, boost::asio::detached);
    peer.shutdown(tcp::socket::shutdown_send);
    context.run();
    std::string bytes;
    boost::system::error_code end;
    boost::asio::read(peer, boost::asio::dynamic_buffer(bytes), end);
    ControlFrames frames;
    frames.append(bytes);
    std::vector<ControlMessage> read;
    while (auto message = frames.next()) read.push_back(*std::move(message));
    return read;
}

Answer answer_of(std::size_t size) { return {.id = 7, .node = 1, .text = std::string(size, 'x')}; }

}  // namespace

TEST_CASE("control session: answers that are too much go without their texts, and the agent stays") {
    const auto read = read_of({answer_of(3000), answer_of(3000), answer_of(3000), Goodbye{}});
    REQUIRE(read.size() == 4);
    CHECK(std::get<Answer>(read[0]).text.size() == 3000);
    CHECK(std::get<Answer>(read[1]).text.size() == 3000);
    const Answer& cut = std::get<Answer>(read[2]);
    CHECK((cut.id == 7 && cut.node == 1 && cut.text.empty() && !cut.trouble.empty()));
    CHECK(std::holds_alternative<Goodbye>(read[3]));
}

TEST_CASE("control session: whatever else is too much ends it") {
    CHECK(read_of({Remark{std::string(5000, 'x')}, Remark{std::string(5000, 'x')}, Goodbye{}}).empty());
}

}  // namespace ddprun
