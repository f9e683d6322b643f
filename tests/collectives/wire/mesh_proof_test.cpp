#include "collectives/wire/frame.hpp"

#include "collectives/error.hpp"
#include "tests/support/catch.hpp"

using namespace ddprun;

namespace {

HelloBytes some_hello() { return encode(LinkHello{Channel::data, 3, 2, 5, 6, {1, 2, 3}, 1, Nonce{9, 8, 7}}); }

}  // namespace

TEST_CASE("a proof holds for its key, side, Hello and challenge, and for nothing else", "[mesh_proof]") {
    const SecretKey key = SecretKey::fresh();
    const HelloBytes hello = some_hello();
    const Nonce challenge{4, 5, 6};
    const MeshProof proof = make_proof(key, MeshSide::dialled, hello, challenge);
    REQUIRE(is_proof(proof, key, MeshSide::dialled, hello, challenge));
    CHECK_FALSE(is_proof(proof, SecretKey::fresh(), MeshSide::dialled, hello, challenge));
    // Sent back to who made it.
    CHECK_FALSE(is_proof(proof, key, MeshSide::dialler, hello, challenge));
    // Both ranks, the communicator, what the connection is for, and the caller's challenge are in the Hello.
    for (std::size_t at = 0; at < hello.size(); ++at) {
        HelloBytes other = hello;
        other[at] ^= std::byte{1};
        CHECK_FALSE(is_proof(proof, key, MeshSide::dialled, other, challenge));
    }
    for (std::size_t at = 0; at < challenge.size(); ++at) {
        Nonce other = challenge;
        other[at] ^= 1;
        CHECK_FALSE(is_proof(proof, key, MeshSide::dialled, hello, other));
    }
    for (std::size_t at = 0; at < proof.size(); ++at) {
        MeshProof other = proof;
        other[at] ^= std::byte{0x80};
        CHECK_FALSE(is_proof(other, key, MeshSide::dialled, hello, challenge));
    }
}

TEST_CASE("an offer comes back as it went", "[mesh_proof]") {
    const MeshOffer offer{{1, 2, 3}, make_proof(SecretKey(), MeshSide::dialled, some_hello(), {})};
    const MeshOffer back = decode_offer(encode(offer));
    CHECK(back.challenge == offer.challenge);
    CHECK(back.proof == offer.proof);
}

TEST_CASE("DDPRUN_MESH_KEY is a key, or refused without being shown", "[mesh_proof]") {
    CHECK_FALSE(read_mesh_key({}).has_value());
    const SecretKey key = SecretKey::fresh();
    CHECK(read_mesh_key({{"DDPRUN_MESH_KEY", hex_of(key)}}) == key);
    for (const std::string& wrong : {std::string(), hex_of(key).substr(1), "g" + hex_of(key).substr(1)}) {
        try {
            read_mesh_key({{"DDPRUN_MESH_KEY", wrong}});
            FAIL("taken");
        } catch (const CollectiveError& error) {
            CHECK(error.code() == CollectiveErrorCode::invalid_argument);
            CHECK(std::string(error.what()) ==
                  "join: DDPRUN_MESH_KEY in the environment is not 64 hexadecimal digits");
        }
    }
}
