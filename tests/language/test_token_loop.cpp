// SPDX-License-Identifier: Apache-2.0
// What the loop promises: the same bits whatever the chunks, the past and the session were.
#include "tests/language/language_fixture.h"
#include "tests/support/counting_allocator.h"

using namespace rlx;
using namespace rlx::language;
using namespace rlx::test;

using Ids = std::vector<int32_t>;

TEST_CASE("chunk_schedules_give_equal_bits") {
  on_every_device([](rlx_device* device) {
    Rig by32(device, Reuse::Exact, {32});
    Rig by16(device, Reuse::Exact, {16});
    Rig mixed(device, Reuse::Exact);
    for (const size_t count : {1, 2, 15, 16, 17, 31, 33, 48, 63, 65, 81, 95, 96}) {
      INFO(count << " tokens");
      by32.loop().rewind(0);
      by16.loop().rewind(0);
      mixed.loop().rewind(0);
      const auto wanted = by32.read(some_prompt(count));
      CHECK(by16.read(some_prompt(count)) == wanted);
      CHECK(mixed.read(some_prompt(count)) == wanted);
    }
  });
}

TEST_CASE("few_rows_and_single_tokens_choose_the_same_tokens") {
  on_every_device([](rlx_device* device) {
    Rig exact(device, Reuse::Exact);
    Rig by8(device, Reuse::Fast, {8});
    exact.read(some_prompt(37));
    by8.read(some_prompt(37));
    const Ids wanted = exact.greedy(12);
    CHECK(by8.greedy(12) == wanted);
    Rig single(device, Reuse::Fast, {1});
    single.read(some_prompt(37));
    CHECK(single.greedy(12) == wanted);
  });
}

TEST_CASE("the_evaluation_of_the_prompt_as_a_whole_gives_what_single_tokens_give") {
  on_every_device([](rlx_device* device) {
    Rig whole(device, Reuse::Exact);
    Rig single(device, Reuse::Fast, {1});
    const auto a = whole.read(some_prompt(20));
    const auto b = single.read(some_prompt(20));
    for (size_t i = 0; i < a.size(); ++i) CHECK(std::abs(a[i] - b[i]) < 1e-4f);
  });
}

TEST_CASE("what_was_said_before_changes_no_bit") {
  on_every_device([](rlx_device* device) {
    // Of 37 tokens a chunk of 32 and one of 16 that is not full; of 69 two of 32 and one of 16.
    for (const auto& [reuse, kept] : {std::pair{Reuse::Exact, 32U}, {Reuse::Rows, 37U}}) {
      Rig with_past(device, reuse);
      with_past.read(some_prompt(37));
      Ids ids = some_prompt(37);
      const Ids reply = with_past.greedy(13);
      ids.insert(ids.end(), reply.begin(), reply.end());
      const Ids more = some_prompt(19);
      ids.insert(ids.end(), more.begin(), more.end());
      const auto got = with_past.read(ids);
      CHECK(with_past.loop().kept_tokens() == kept);
      Rig fresh(device, reuse);
      CHECK(fresh.read(ids) == got);
      CHECK(fresh.loop().kept_tokens() == 0);
      CHECK(with_past.greedy(8) == fresh.greedy(8));
    }
  });
}

TEST_CASE("exact_reuse_keeps_the_chunks_that_the_prompt_is_cut_into_itself") {
  on_every_device([](rlx_device* device) {
    Rig rig(device, Reuse::Exact);
    const auto kept = [&](size_t count) {
      rig.read(some_prompt(count));
      return rig.loop().kept_tokens();
    };
    CHECK(kept(20) == 0);   // 16 and a part of 16
    CHECK(kept(40) == 0);   // 32 and a part of 16
    CHECK(kept(44) == 32);  // another part
    CHECK(kept(44) == 32);  // the last chunk is computed for its logits
    CHECK(kept(70) == 32);  // two of 32 and a part of 16
    CHECK(kept(90) == 64);
    CHECK(kept(33) == 32);
    rig.loop().rewind(31);
    CHECK(kept(40) == 0);
    Ids other = some_prompt(70);
    other[31] = (other[31] + 1) % int32_t{kTinyVocabulary};
    rig.read(some_prompt(70));
    rig.read(other);
    CHECK(rig.loop().kept_tokens() == 0);
    CHECK(kept(95) == 0);
    CHECK(rig.loop().prompt_rows() == 95);
  });
}

TEST_CASE("fast_reuse_keeps_the_rows_of_single_tokens") {
  on_every_device([](rlx_device* device) {
    Rig rig(device, Reuse::Fast);
    rig.read(some_prompt(21));
    Ids ids = some_prompt(21);
    const Ids reply = rig.greedy(13);
    ids.insert(ids.end(), reply.begin(), reply.end());
    rig.read(ids);
    CHECK(rig.loop().kept_tokens() == 33);  // the last is computed for its logits
    ids[30] = (ids[30] + 1) % kTinyVocabulary;
    rig.read(ids);
    CHECK(rig.loop().kept_tokens() == 30);
  });
}

TEST_CASE("a_rewound_loop_repeats_its_bits") {
  on_every_device([](rlx_device* device) {
    Rig rig(device, Reuse::Exact);
    rig.read(some_prompt(30));
    const Ids ids = rig.greedy(20);
    const auto wanted = rig.logits();
    rig.loop().rewind(40);
    for (size_t i = 10; i < 20; ++i) {
      if (i > 10) {
        int32_t id = 0;
        REQUIRE_OK(rig.loop().next(id));
        CHECK(id == ids[i]);
      }
      REQUIRE_OK(rig.loop().feed(ids[i]));
    }
    CHECK(rig.logits() == wanted);
  });
}

TEST_CASE("saved_rows_go_on_in_another_session") {
  on_every_device([](rlx_device* device) {
    Rig rig(device, Reuse::Exact);
    rig.read(some_prompt(40));
    rig.greedy(5);
    std::vector<std::byte> rows;
    REQUIRE_OK(rig.loop().save_rows(rows));
    Rig other(device, Reuse::Exact);
    REQUIRE_OK(other.loop().restore_rows(rig.loop().held(), rig.loop().prompt_rows(), rows));
    REQUIRE_OK(rig.loop().feed(7));
    REQUIRE_OK(other.loop().feed(7));
    CHECK(other.logits() == rig.logits());
    CHECK(other.read(some_prompt(60)) == rig.read(some_prompt(60)));
    CHECK(other.loop().kept_tokens() == 32);
    rows.pop_back();
    CHECK(other.loop().restore_rows(rig.loop().held(), 40, rows).message().find("bytes") !=
          std::string::npos);
  });
}

TEST_CASE("a_token_costs_one_submit_and_no_allocation") {
  for (const std::shared_ptr<Device>& each : present_devices().devices) {
    // Without the validation layer, which allocates for itself.
    rlx_device* device = nullptr;
    REQUIRE(rlx_device_open(each->info().id.c_str(), &device) == RLX_OK);
    Rig rig(device, Reuse::Exact);
    rig.read(some_prompt(20));
    rig.greedy(2);
    int32_t id = 0;
    bool good = rig.loop().next(id).ok();
    REQUIRE_OK(rig.loop().feed(id));
    const uint64_t submits = rig.session()->session->submit_count();
    const uint64_t before = allocations_of_this_thread();
    for (int i = 0; i < 30; ++i)
      good = good && rig.loop().next(id).ok() && rig.loop().feed(id).ok();
    CHECK(allocations_of_this_thread() == before);
    CHECK(good);
    CHECK(rig.session()->session->submit_count() == submits + 30);
    rlx_device_close(device);
  }
}

TEST_CASE("verified_drafts_are_the_tokens_of_greedy_decoding") {
  on_every_device([](rlx_device* device) {
    Rig plain(device, Reuse::Exact);
    plain.read(some_prompt(20));
    const Ids wanted = plain.greedy(14);
    Rig rig(device, Reuse::Exact);
    rig.read(some_prompt(20));
    const auto verify = [&](int32_t id, const Ids& drafts) {
      Ids following(drafts.size() + 1);
      uint32_t count = 0;
      REQUIRE_OK(rig.loop().verify(id, drafts, following, count));
      following.resize(count);
      return following;
    };
    REQUIRE(rig.loop().most_drafts() == 3);
    CHECK(verify(wanted[0], {wanted[1], wanted[2], wanted[3]}) ==
          Ids(wanted.begin() + 1, wanted.begin() + 5));
    const int32_t wrong = (wanted[6] + 1) % int32_t{kTinyVocabulary};
    CHECK(verify(wanted[4], {wanted[5], wrong, wanted[7]}) == Ids{wanted[5], wanted[6]});
    CHECK(rig.loop().held().size() == 26);
    CHECK(rig.loop().held().back() == wanted[5]);
    CHECK(verify(wanted[6], {wrong}).size() == (wrong == wanted[7] ? 2 : 1));
    rig.loop().rewind(26);
    REQUIRE_OK(rig.loop().feed(wanted[6]));
    CHECK(rig.greedy(7) == Ids(wanted.begin() + 7, wanted.end()));
    rig.loop().rewind(20);
    CHECK(rig.loop().prompt_rows() == 20);
  });
}

TEST_CASE("drafts_that_cannot_be_verified_are_refused") {
  on_every_device([](rlx_device* device) {
    Rig rig(device, Reuse::Exact);
    rig.read(some_prompt(92));
    Ids following(8);
    uint32_t count = 0;
    CHECK(rig.loop().verify(1, {}, following, count).message().find("takes 1 to 3") !=
          std::string::npos);
    CHECK(rig.loop().most_drafts() == 3);
    REQUIRE_OK(rig.loop().feed(1));
    CHECK(rig.loop().most_drafts() == 0);
    CHECK(rig.loop().verify(1, Ids{2}, following, count).code() == RLX_INVALID_ARGUMENT);
  });
}

TEST_CASE("what_does_not_fit_the_context_is_refused_with_both_numbers") {
  on_every_device([](rlx_device* device) {
    Rig rig(device, Reuse::Exact);
    const auto said = [](const Status& status) {
      CHECK(status.code() == RLX_INVALID_ARGUMENT);
      return status.message();
    };
    CHECK(said(rig.loop().read_prompt(some_prompt(97)))
              .find("has 97 tokens, the plan's context holds 96") != std::string::npos);
    CHECK(said(rig.loop().read_prompt({})).find("no tokens") != std::string::npos);
    CHECK(said(rig.loop().read_prompt(Ids{3, 61}))
              .find("token 1 of the prompt is 61; the vocabulary has ids 0 to 60") !=
          std::string::npos);
    CHECK(said(rig.loop().read_prompt(Ids{-1})).find("is -1") != std::string::npos);
    rig.read(some_prompt(96));
    int32_t id = 0;
    REQUIRE_OK(rig.loop().next(id));
    CHECK(said(rig.loop().feed(id)).find("holds 96 tokens, 97 are wanted") != std::string::npos);
    REQUIRE_OK(rig.loop().next(id));  // the prompt's outputs are still there
  });
}
