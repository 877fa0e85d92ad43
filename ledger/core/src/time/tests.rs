//! Meters and buckets against values that are summed up nanosecond by nanosecond.

use proptest::{collection::vec, option, prelude::*};

use super::*;
use quota_semantics::Span;

fn time(nanoseconds: i64) -> Timestamp {
    Timestamp::from_nanoseconds(nanoseconds)
}

fn level(used: i64, reserved: i64, hard: Option<i64>) -> Level {
    let amount = Quantity::from_units;
    Level::new(amount(used), amount(reserved), hard.map(amount))
}

/// Changes in the order of time: the time, and the level from then on.
type Steps = Vec<(i64, Option<(i64, i64, Option<i64>)>)>;

fn steps() -> impl Strategy<Value = Steps> {
    let step = (-10_i64..60, option::weighted(0.8, (0..6_i64, 0..3_i64, option::of(0..8_i64))));
    vec(step, 0..20).prop_map(|mut steps| {
        steps.sort_by_key(|(time, _)| *time);
        steps
    })
}

fn level_of(step: Option<(i64, i64, Option<i64>)>) -> Option<Level> {
    step.map(|(used, reserved, hard)| level(used, reserved, hard))
}

/// The level at a time, and the place of the step that set it.
fn at(steps: &Steps, time: i64) -> Option<(usize, Level)> {
    let place = steps.iter().rposition(|(from, _)| *from <= time)?;
    Some((place, level_of(steps[place].1)?))
}

fn meter(steps: &Steps, from: i64, to: i64, lowest: Percentile) -> Measure {
    let period = Period { from: time(from), to: time(to) };
    let mut meter = Meter::new(period, lowest);
    for (place, (at, step)) in steps.iter().enumerate() {
        let moment = Moment { time: time(*at), sequence: place as u64 };
        meter.set(moment, level_of(*step));
    }
    meter.finish()
}

fn sum(a: &Quantity, b: &Quantity) -> Quantity {
    let mut sum = a.clone();
    sum.add_assign(b);
    sum
}

/// The value that is exceeded for no more than the share leaves of the time.
fn percentile(mut values: Vec<Quantity>, points: usize) -> Option<Quantity> {
    values.sort();
    let exceeds = |value: &&Quantity| {
        let above = values.iter().filter(|other| other > value).count();
        above * 10_000 <= values.len() * (10_000 - points)
    };
    values.iter().find(exceeds).cloned()
}

proptest! {
    #[test]
    fn a_meter_sums_up_every_nanosecond(
        steps in steps(),
        from in 0..30_i64,
        length in 0..30_i64,
        points in prop_oneof![Just(10_000_u16), Just(9_500), Just(5_000), 0..10_000_u16],
    ) {
        let to = from + length;
        let lowest = Percentile::of_basis_points(points);
        let measure = meter(&steps, from, to, lowest);
        let levels: Vec<_> = (from..to).filter_map(|time| Some((time, at(&steps, time)?))).collect();
        let all = |of: fn(&Level) -> Quantity| {
            levels.iter().fold(Quantity::ZERO, |all, (_, (_, level))| sum(&all, &of(level)))
        };
        prop_assert_eq!(measure.nanoseconds as usize, levels.len());
        prop_assert_eq!(&measure.used, &all(|level| level.used.clone()));
        prop_assert_eq!(&measure.reserved, &all(|level| level.reserved.clone()));
        prop_assert_eq!(&measure.hard, &all(|level| level.hard.clone()));
        let full = levels.iter().filter(|(_, (_, level))| level.full > 0).count();
        prop_assert_eq!(measure.full, full as u128);
        let demands: Vec<Quantity> = levels.iter().map(|(_, (_, level))| level.demand()).collect();
        let peak = measure.peak.as_ref();
        prop_assert_eq!(peak.map(|peak| &peak.value), demands.iter().max());
        if let Some(peak) = peak {
            let (first, (_, _)) = levels
                .iter()
                .find(|(_, (_, level))| level.demand() == peak.value)
                .unwrap();
            prop_assert_eq!(peak.at.time, time(*first));
            let (place, _) = at(&steps, *first).unwrap();
            prop_assert_eq!(peak.at.sequence, place as u64);
        }
        for share in [lowest, Percentile::P95.max(lowest), Percentile::MAX] {
            let naive = percentile(demands.clone(), usize::from(share.basis_points()));
            prop_assert_eq!(measure.percentile(share), naive.as_ref());
        }
        prop_assert_eq!(measure.last, at(&steps, to.max(from + 1) - 1).map(|(_, level)| level));
    }

    /// A number with two parts: each part reports its own changes.
    #[test]
    fn a_number_is_the_sum_of_its_parts(
        parts in [steps(), steps()], from in 0..30_i64, length in 0..30_i64,
    ) {
        let period = Period { from: time(from), to: time(from + length) };
        let mut steps: Vec<_> = (0..2)
            .flat_map(|part| parts[part].iter().map(move |(at, step)| (*at, part, *step)))
            .collect();
        steps.sort_by_key(|(at, ..)| *at);
        let mut levels = [Level::ZERO, Level::ZERO];
        let mut shifted = Gauge::of_nothing(period, Percentile::P95);
        let mut sum_of_both = Level::ZERO;
        let mut set = Meter::new(period, Percentile::P95);
        set.set(Moment { time: period.from, sequence: 0 }, Some(Level::ZERO));
        for (sequence, (at, part, step)) in steps.into_iter().enumerate() {
            let at = Moment { time: time(at), sequence: sequence as u64 };
            let after = level_of(step).unwrap_or_default();
            if let Some(now) = Now::in_period(period, at) {
                if let Some(step) = LimitStep::between(&levels[part], &after) {
                    shifted.shift_limit(&mut sum_of_both, now, &step);
                }
                shifted.shift(&mut sum_of_both, now, &Step::between(&levels[part], &after));
            }
            levels[part] = after;
            let [a, b] = &levels;
            set.set(at, Some(Level {
                used: sum(&a.used, &b.used),
                reserved: sum(&a.reserved, &b.reserved),
                hard: sum(&a.hard, &b.hard),
                limits: a.limits + b.limits,
                full: a.full + b.full,
            }));
        }
        let shifted = shifted.finish(period, Some(sum_of_both));
        prop_assert_eq!(format!("{shifted:?}"), format!("{:?}", set.finish()));
    }

    #[test]
    fn adjacent_periods_add_up(steps in steps(), from in 0..20_i64, first in 0..20_i64, second in 0..20_i64) {
        let (middle, to) = (from + first, from + first + second);
        let whole = meter(&steps, from, to, Percentile::P95);
        let parts = [meter(&steps, from, middle, Percentile::P95), meter(&steps, middle, to, Percentile::P95)];
        prop_assert_eq!(whole.used, sum(&parts[0].used, &parts[1].used));
        prop_assert_eq!(whole.reserved, sum(&parts[0].reserved, &parts[1].reserved));
        prop_assert_eq!(whole.hard, sum(&parts[0].hard, &parts[1].hard));
        prop_assert_eq!(whole.full, parts[0].full + parts[1].full);
        let largest = parts.iter().filter_map(|part| part.peak.as_ref()).map(|peak| &peak.value).max();
        prop_assert_eq!(whole.peak.as_ref().map(|peak| &peak.value), largest);
    }

    #[test]
    fn buckets_are_periods(steps in steps(), from in 0..20_i64, length in 0..30_i64, step in 1..12_i64) {
        let to = from + length;
        let period = Period { from: time(from), to: time(to) };
        let mut buckets = Buckets::new(period, Span::from_nanoseconds(step));
        for (place, (at, step)) in steps.iter().enumerate() {
            let moment = Moment { time: time(*at), sequence: place as u64 };
            buckets.set(moment, level_of(*step));
        }
        let (buckets, summary) = buckets.finish();
        let begins: Vec<i64> = (from..to).step_by(step as usize).collect();
        prop_assert_eq!(buckets.len(), begins.len());
        let values = |from: i64, to: i64, of: fn(&Level) -> Option<Quantity>| {
            (from..to).filter_map(|time| of(&at(&steps, time)?.1)).collect::<Vec<_>>()
        };
        let check = |found: &Option<Values>, from, to, of| {
            let naive = values(from, to, of);
            assert_eq!(found.as_ref().map(|it| &it.min), naive.iter().min());
            assert_eq!(found.as_ref().map(|it| &it.max.value), naive.iter().max());
            assert_eq!(found.as_ref().map(|it| &it.last), naive.last());
            let all = naive.iter().fold(Quantity::ZERO, |all, value| sum(&all, value));
            let mean = found.as_ref().map(|it| it.mean.clone());
            assert_eq!(mean.unwrap_or_default(), all.divided(naive.len() as u64));
        };
        for (bucket, begin) in buckets.iter().zip(begins) {
            let end = (begin + step).min(to);
            prop_assert_eq!(bucket.period, Period { from: time(begin), to: time(end) });
            check(&bucket.used, begin, end, |level| Some(level.used.clone()));
            check(&bucket.reserved, begin, end, |level| Some(level.reserved.clone()));
            check(&bucket.taken, begin, end, |level| Some(level.demand()));
            check(&bucket.hard, begin, end, |level| level.limit().cloned());
            prop_assert_eq!(&bucket.last, &at(&steps, end - 1).map(|(_, level)| level));
        }
        check(&summary.used, from, to, |level| Some(level.used.clone()));
        check(&summary.hard, from, to, |level| level.limit().cloned());
        let naive = percentile(values(from, to, |level| Some(level.used.clone())), 9_500);
        prop_assert_eq!(&summary.p95[0], &naive);
    }
}

#[test]
fn integrals_of_large_amounts_over_long_times_are_exact() {
    let amount: Quantity = "7Ei".parse().unwrap();
    let period = Period { from: Timestamp::EPOCH, to: Timestamp::MAX };
    let mut meter = Meter::new(period, Percentile::MAX);
    meter.set(Moment::default(), Some(Level::new(amount.clone(), Quantity::ZERO, None)));
    let measure = meter.finish();
    assert_eq!(measure.mean(period.nanoseconds()), amount);
    let hours = unit_hours(&measure.used);
    // 7 * 2^60 * (2^63 - 1) / 3.6e12
    assert_eq!(hours.decimal(), "20676879934432024687372984.678736491");
}

#[test]
fn a_tail_keeps_few_values() {
    let mut tail = Tail::new(Percentile::P95, 100_000);
    for value in 0..100_000 {
        tail.hold(&Quantity::from_units(value * 7919 % 100_003), 1);
    }
    assert!(tail.len() <= 5_002, "{}", tail.len());
}
