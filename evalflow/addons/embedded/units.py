"""Words for amounts in English, German, French and Spanish: numbers, units, months and weekdays, in small letters."""

from __future__ import annotations

from evalflow.addons.embedded.evidence import listed


def _values(text: str) -> dict[str, float]:
    rows = (row.split(":") for row in text.strip().splitlines())
    return {word: float(value) for value, units in rows for word in units.split()}


def _places(text: str, first: int) -> dict[str, int]:
    return {word: place for place, row in enumerate(text.strip().splitlines(), first) for word in row.split()}


def _units(text: str) -> dict[str, tuple[str, float]]:
    rows = (row.split(maxsplit=2) for row in text.strip().splitlines())
    return {name: (dimension, float(factor)) for dimension, factor, names in rows for name in names.split()}


SMALL = _values(
    """
    0: zero cero
    1: one eins ein eine einen einem einer un une uno una
    2: two zwei deux dos
    3: three drei trois tres
    4: four vier quatre cuatro
    5: five fünf cinq cinco
    6: six sechs seis
    7: seven sieben sept siete
    8: eight acht huit ocho
    9: nine neun neuf nueve
    10: ten zehn dix diez
    11: eleven elf onze
    12: twelve zwölf douze doce dozen
    13: thirteen dreizehn treize trece
    14: fourteen vierzehn quatorze catorce
    15: fifteen fünfzehn quinze quince
    16: sixteen sechzehn seize
    17: seventeen siebzehn
    18: eighteen achtzehn
    19: nineteen neunzehn
    20: twenty zwanzig vingt veinte
    30: thirty dreißig trente treinta
    40: forty vierzig quarante cuarenta
    50: fifty fünfzig cinquante cincuenta
    60: sixty sechzig soixante sesenta
    70: seventy siebzig setenta
    80: eighty achtzig ochenta
    90: ninety neunzig noventa
    """
)
LARGE = _values(
    """
    100: hundred hundert cien ciento
    1e3: thousand tausend mille
    1e6: million millions mio millionen millón millones
    1e9: billion billions mrd milliarde milliarden milliard milliards
    1e12: trillion trillions
    """
)
# Articles of the languages: they are an amount only before a unit.
ARTICLES = listed("one ein eine einen einem einer un une uno una")
FRACTIONS = {"½": 0.5, "¼": 0.25, "¾": 0.75, "⅓": 1 / 3, "⅔": 2 / 3}
PARTS = _values(
    """
    0.5: half halbe halben demi demie media
    0.25: quarter viertel
    """
)
LOOSE = (
    "about",
    "around",
    "approximately",
    "roughly",
    "nearly",
    "almost",
    "some",
    "over",
    "more than",
    "etwa",
    "rund",
    "ungefähr",
    "fast",
    "mehr als",
    "environ",
    "près de",
    "unos",
    "casi",
    "cerca de",
)

_DAY = 86_400
UNITS = _units(
    f"""
    m 1000 km kilometre kilometres kilometer kilometers kilometern kilomètres kilómetros
    m 1 m metre metres meter meters metern mètre mètres metro metros
    m 0.01 cm centimetre centimetres centimeter centimeters zentimeter centimètres centímetros
    m 0.001 mm millimetre millimetres millimeter millimeters millimètres milímetros
    m 1609.344 mile miles meile meilen
    m 0.3048 ft foot feet
    kg 1 kg kilo kilos kilogram kilograms kilogramm kilogramme kilogrammes kilogramos
    kg 0.001 g gram grams gramm gramme grammes gramo gramos
    kg 1000 t tonne tonnes ton tons tonnen toneladas
    kg 1e-6 mg milligram milligrams milligramm
    l 1 l litre litres liter liters litern litro litros
    l 0.001 ml millilitre millilitres milliliter milliliters
    s 1 s sec second seconds sekunde sekunden seconde secondes segundo segundos
    s 60 min mins minute minutes minuten minuto minutos
    s 3600 h hr hrs hour hours stunde stunden heure heures hora horas
    s {_DAY} day days tag tage tagen jour jours día días
    s {7 * _DAY} week weeks woche wochen semaine semaines semana semanas
    s {14 * _DAY} fortnight fortnights
    s {30.4375 * _DAY} month months monat monate monaten mois mes meses
    s {365.25 * _DAY} year years jahr jahre jahren ans année années año años
    s {3652.5 * _DAY} decade decades jahrzehnt jahrzehnte décennies década décadas
    s {36525 * _DAY} century centuries jahrhundert jahrhunderte siècle siècles siglo siglos
    % 1 % percent prozent
    EUR 1 € eur euro euros
    USD 1 $ usd dollar dollars dólares
    GBP 1 £ gbp
    CHF 1 chf franken francs
    JPY 1 ¥ jpy yen
    °C 1 °c celsius
    °F 1 °f fahrenheit
    km/h 1 km/h kmh
    km/h 1.609344 mph
    W 1 w watt watts
    W 1000 kw kilowatt kilowatts
    Wh 1 wh
    Wh 1000 kwh
    byte 1e3 kb
    byte 1e6 mb
    byte 1e9 gb
    byte 1e12 tb
    """
) | dict.fromkeys(("per cent", "pour cent", "por ciento"), ("%", 1.0))
CENTS = listed("cent cents ct céntimos centimes")
COINED = ("EUR", "USD")
POUNDS = listed("pound pounds lb lbs pfund livres libras")
PERIODS = listed("""
    minute hour day week month year stunde tag woche monat jahr
    heure jour semaine mois hora día semana mes año
    """)
MONTHS = _places(
    """
    january jan januar janvier enero
    february feb februar février febrero
    march mar märz mars marzo
    april apr avril abril
    may mai mayo
    june jun juni juin junio
    july jul juli juillet julio
    august aug août agosto
    september sep sept septembre septiembre
    october oct oktober octobre octubre
    november nov novembre noviembre
    december dec dezember décembre diciembre
    """,
    first=1,
)
# Without a day or a year these words are mostly not months.
AMBIGUOUS_MONTHS = listed("may march mars sept")
WEEKDAYS = _places(
    """
    monday montag lundi lunes
    tuesday dienstag mardi martes
    wednesday mittwoch mercredi miércoles
    thursday donnerstag jeudi jueves
    friday freitag vendredi viernes
    saturday samstag sonnabend samedi sábado
    sunday sonntag dimanche domingo
    """,
    first=0,
)
